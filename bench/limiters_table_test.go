package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

var (
	peersFile  = flag.String("peers", "", "measure all limiters, and write the tables into this `file` between its markers; - prints them")
	peersCells = flag.String("cells", "", "measure only the cells whose line in the table matches this `pattern`")
	peersNames = flag.String("limiters", "", "measure only ours and the limiters whose name matches this `pattern`")
)

// What is promised: how long a decision takes at most, beside the fastest of the
// others, with one goroutine and with two.
var ceilings = [widths]float64{0.8, 1.0}

func ourName(name string) bool  { return strings.HasPrefix(name, "**") }
func bareName(name string) bool { return !ourName(name) && strings.HasPrefix(name, "*") }

func askOne(key string, l limit.Limit) limit.Ask { return limit.Ask{Key: key, Limit: l, N: 1} }

// TestLimiterPeers: what is measured allows all, or one event a key, and tells
// keys apart (but for the one that has none).
func TestLimiterPeers(t *testing.T) {
	for _, p := range limiterPeers {
		for _, keys := range []int{1, 100} {
			for _, d := range []debt{owes, fresh} {
				c := cell{keys: keys, debt: d}
				asked, open := c.asked(), p.make(c.quota(), keys)
				for i := range 1000 {
					if !open(asked.key(i % keys)) {
						t.Errorf("%s, %v: event %d is refused", p.name, c, i)
					}
				}
			}
			if p.never || p.name == rateName {
				continue
			}
			asked, closed, allowed := cell{keys: keys}.asked(), p.make(usedUp, keys), 0
			for i := range 1000 {
				if closed(asked.key(i % keys)) {
					allowed++
				}
			}
			if allowed != keys {
				t.Errorf("%s, %d keys, closed: %d events are allowed, want one a key", p.name, keys, allowed)
			}
		}
	}
}

// TestPeersTable measures if -peers is given; without, it measures one cell for a
// moment, so that it goes on working.
func TestPeersTable(t *testing.T) {
	if *peersFile == "" {
		found := results{}
		found.measure(t, []cell{{keys: 1, debt: owes}}, 1)
		for _, p := range limiterPeers {
			if text := found.times(); !strings.Contains(text, p.name) {
				t.Errorf("%s is not in the table:\n%s", p.name, text)
			}
		}
		return
	}
	chosen, named, began := regexp.MustCompile(*peersCells), regexp.MustCompile(*peersNames), time.Now()
	not := func(c cell) bool { return !chosen.MatchString(c.String()) }
	limiterPeers = slices.DeleteFunc(limiterPeers, func(p limiterPeer) bool { return !ourName(p.name) && !named.MatchString(p.name) })
	found := results{}
	found.measure(t, slices.DeleteFunc(append(cells(), spentCells()...), not), rounds)
	found.measureMost(t, slices.DeleteFunc(mostCells(), not))
	found.hold(t)
	text := found.tables()
	fmt.Fprintf(os.Stderr, "measured in %v\n", time.Since(began).Round(time.Second))
	if *peersFile == "-" {
		fmt.Println(text)
		return
	}
	if err := between(*peersFile, text); err != nil {
		t.Error(err)
	}
}

// results are what was measured, by cell and name.
type results map[cell]map[string]figure

func (r results) measure(t *testing.T, all []cell, rounds int) {
	for _, c := range all {
		r[c] = measure(t, c, limiterPeers, rounds)
		if rounds > 1 {
			fmt.Fprintln(os.Stderr, "measured", c)
		}
	}
}

// fastest returns the fastest of the others in a cell, of those that give right
// answers there.
func (r results) fastest(c cell, width int) (name string, f figure) {
	for _, p := range limiterPeers {
		g, measured := r[c][p.name]
		if !measured || ourName(p.name) || bareName(p.name) || g.isWrong() {
			continue
		}
		if name == "" || g.ns[width] < f.ns[width] {
			name, f = p.name, g
		}
	}
	return name, f
}

// isWrong reports whether a limiter gives wrong answers: more than the few that
// some lose where callers collide.
func (f *figure) isWrong() bool { return f.wrong > 0.05 }

// ratio returns the time of a decision of ours beside that of the fastest.
func (r results) ratio(c cell, name string, width int) float64 {
	_, other := r.fastest(c, width)
	return r[c][name].ns[width] / other.ns[width]
}

// hold fails for each promise that is not kept, and says which limiters were left
// out.
func (r results) hold(t *testing.T) {
	for _, c := range r.cells() {
		for _, p := range limiterPeers {
			if f, ok := r[c][p.name]; ok && f.isWrong() {
				t.Logf("LEFT OUT: %s gives wrong answers in %v: %.0f %%", p.name, c, 100*f.wrong)
			}
			if !ourName(p.name) || c.debt == spent {
				continue
			}
			for w, most := range ceilings {
				if x := r.ratio(c, p.name, w); x > most {
					name, _ := r.fastest(c, w)
					t.Errorf("%s, %v, %d goroutines: %.2f of the time of %s, want at most %.2f", p.name, c, w+1, x, name, most)
				}
			}
		}
	}
}

// cells returns the cells that were measured, in the order of the table.
func (r results) cells() (all []cell) {
	for _, c := range slices.Concat(cells(), spentCells(), mostCells()) {
		if _, ok := r[c]; ok {
			all = append(all, c)
		}
	}
	return all
}

// between puts text into a file, between the lines of the markers.
func between(file, text string) error {
	const from, to = "<!-- peers -->\n", "<!-- end of peers -->\n"
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(old, []byte(from))
	_, tail, ok2 := bytes.Cut(rest, []byte(to))
	if !ok || !ok2 {
		return fmt.Errorf("%s: no lines %q and %q", file, strings.TrimSpace(from), strings.TrimSpace(to))
	}
	return os.WriteFile(file, []byte(string(head)+from+text+to+string(tail)), 0o644)
}
