// Command degrade shows an internal service that calls too often: beyond its
// limit it gets a cheaper answer instead of none, and full answers again when it
// slows down.
//
//	go run ./examples/owners/degrade
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/throttle-go/throttle/examples/owners/internal/scene"
)

func main() {
	scene.Main("who calls too often gets cheaper answers", func(ctx context.Context, out io.Writer) error {
		acts, err := play(ctx, newPrices())
		if err != nil {
			return err
		}
		return show(out, acts)
	})
}

func newPrices() *prices {
	return &prices{computed: make(map[string]int), last: make(map[string]price)}
}

// act is calls of one internal service, and the answers it got.
type act struct {
	name, key    string
	perSecond    float64
	full, cached scene.Tally
	took         time.Duration
}

const lasts = 700 * time.Millisecond // each act

// play lets the reports call too often while the shop goes on as ever, and then
// slow down. The third service has had its answer of the hour, and asks again,
// and for something else.
func play(ctx context.Context, p *prices) (acts []*act, err error) {
	handler, err := service(p)
	if err != nil {
		return nil, err
	}
	url, stop, err := scene.Serve(handler)
	if err != nil {
		return nil, err
	}
	defer stop()

	flood := &act{name: "calls too often", key: "k1", perSecond: 300}
	shop := &act{name: "meanwhile", key: "k2", perSecond: 15}
	slower := &act{name: "slows down", key: "k1", perSecond: 10}
	few := &act{name: "one an hour", key: "k3"}
	shop.send(ctx, url, "/prices/1") // so that there is an answer to fall back to
	var both sync.WaitGroup
	both.Go(func() { flood.run(ctx, url) })
	both.Go(func() { shop.run(ctx, url) })
	both.Wait()
	slower.run(ctx, url)
	for _, path := range []string{"/prices/2", "/prices/2", "/prices/3"} {
		few.send(ctx, url, path)
	}
	acts = []*act{flood, shop, slower, few}
	for _, a := range acts {
		err = cmp.Or(err, a.full.Err(), a.cached.Err())
	}
	return acts, err
}

func (a *act) run(ctx context.Context, url string) {
	during, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	began := time.Now()
	scene.Load(during, a.perSecond, 100, func() { a.send(ctx, url, "/prices/1") })
	a.took = time.Since(began)
}

// send tells the two kinds of answer apart by their Age.
func (a *act) send(ctx context.Context, url, path string) {
	answer, err := scene.Caller{URL: url, Key: a.key}.Send(ctx, "GET", path)
	if answer.Header.Get("Age") != "" {
		a.cached.Add(answer, err)
		return
	}
	a.full.Add(answer, err)
}

func show(out io.Writer, acts []*act) error {
	rows := []string{"|service|sent|full|in|cached|in|429"}
	for _, a := range acts {
		rows = append(rows, fmt.Sprintf("%s|%s|%d|%d|%v|%d|%v|%d", a.name, customers[a.key], a.full.Sent()+a.cached.Sent(),
			a.full.Served(), a.full.Median().Round(100*time.Microsecond), a.cached.Served(), a.cached.Median().Round(100*time.Microsecond), a.full.Refused()))
	}
	return scene.Table(out, rows...)
}
