package replay

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A visit is a caller that asks for a number of pages, one after the other.
type visit struct {
	at      time.Duration
	address uint32
	pages   int
	gap     time.Duration // between two pages, on average
	flood   bool
}

// traffic is a day of honest callers of very different habits, and some that flood.
type traffic struct {
	seed           uint64
	start          time.Time
	callers        int
	flooding       int
	pages, perHour int // of those that flood, in all and in an hour
}

var paths = []string{"/", "/search?q=x", "/things/17", "/things/18/parts", "/login", "/static/app.js", "/api/v1/items", "/about"}

// write writes the day as a log of the combined format.
func (d *traffic) write(to io.Writer) error {
	random := rand.New(rand.NewPCG(d.seed, 17))
	var visits []visit
	for i := range d.callers {
		for range 1 + int(math.Exp(0.6*random.NormFloat64())) {
			visits = append(visits, visit{time.Duration(random.Int64N(int64(23 * time.Hour))), uint32(i), 1 + int(math.Exp(0.9+0.8*random.NormFloat64())), 6 * time.Second, false})
		}
	}
	for i := range d.flooding {
		gap := time.Hour / time.Duration(d.perHour)
		visits = append(visits, visit{time.Duration(9+i%3) * time.Hour, 1<<24 + uint32(i), d.pages, gap, true})
	}
	type request struct {
		at      time.Duration
		address uint32
		path    string
	}
	var all []request
	for _, v := range visits {
		for range v.pages {
			path := paths[random.IntN(len(paths))]
			if v.flood && v.address%2 == 0 {
				path = "/login"
			}
			all = append(all, request{v.at, v.address, path})
			v.at += time.Duration(random.ExpFloat64() * float64(v.gap))
		}
	}
	slices.SortStableFunc(all, func(a, b request) int { return int(a.at/time.Second) - int(b.at/time.Second) })
	w := bufio.NewWriter(to)
	for _, r := range all {
		method := "GET"
		if r.path == "/login" {
			method = "POST"
		}
		a := r.address
		fmt.Fprintf(w, "%d.%d.%d.%d - - [%s] \"%s %s HTTP/1.1\" 200 %d \"-\" \"Mozilla/5.0\"\n", 10+a>>24, a>>16&255, a>>8&255, a&255,
			d.start.Add(r.at).Format("02/Jan/2006:15:04:05 -0700"), method, r.path, 100+a%1000)
	}
	return w.Flush()
}
