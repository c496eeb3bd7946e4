package bench

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"
)

// tables are the figures as Markdown: a table for each number of keys, one of
// memory, and one of the ratios that are promised.
func tables(all map[string]figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d processors, %s. Medians of %d samples of %v, in ns for each decision.\n",
		time.Now().UTC().Format(time.DateOnly), runtime.GOMAXPROCS(0), runtime.Version(), samples, sample)
	for _, keys := range []int{1, 1000, manyKeys} {
		fmt.Fprintf(&b, "\n| %s | allowed, 1 goroutine | allowed, parallel | denied, 1 goroutine | denied, parallel |\n|---|---|---|---|---|\n", keyCount(keys))
		for _, p := range limiterPeers {
			f := all[p.name]
			if _, ok := f.ns[caseName(keys, false, false)]; !ok {
				continue
			}
			fmt.Fprintf(&b, "| %s |", p.name)
			for _, deny := range []bool{false, true} {
				for _, par := range []bool{false, true} {
					fmt.Fprintf(&b, " %s |", number(f.ns[caseName(keys, deny, par)]))
				}
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "\n| 1,000,000 keys | bytes a key | a collection, ms of processor time |\n|---|---|---|\n")
	for _, p := range limiterPeers {
		if f := all[p.name]; p.name != rateName {
			fmt.Fprintf(&b, "| %s | %s | %.1f |\n", p.name, number(f.bytes), max(0, f.gc.Seconds()*1000))
		}
	}
	b.WriteString("\n" + ratios(all))
	return b.String()
}

func keyCount(n int) string {
	switch n {
	case 1:
		return "1 key"
	case 1000:
		return "1,000 keys"
	}
	return "1,000,000 keys"
}

func number(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", x)
}

// ratios compares Allow with the best of the others.
func ratios(all map[string]figures) string {
	var b strings.Builder
	b.WriteString("| `memory.Store.Allow` beside | measured | wanted at most |\n|---|---|---|\n")
	line := func(what string, ours, other, most float64) {
		fmt.Fprintf(&b, "| %s | %.2f | %.2f |\n", what, ours/other, most)
	}
	ours := all[oursName]
	of := func(name string) func(figures) float64 { return func(f figures) float64 { return f.ns[name] } }
	for _, c := range []struct {
		what string
		of   func(figures) float64
		one  bool
		most float64
	}{
		{"one `rate.Limiter`, allowed, 1 goroutine", of(caseName(1, false, false)), true, 0.5},
		{"one `rate.Limiter`, denied, parallel", of(caseName(1, true, true)), true, 0.25},
		{"the fastest of the others with 10^6 keys, allowed, 1 goroutine", of(caseName(manyKeys, false, false)), false, 0.45},
		{"the fastest of the others with 10^6 keys, allowed, parallel", of(caseName(manyKeys, false, true)), false, 0.35},
		{"the cheapest collection of the others with 10^6 keys", func(f figures) float64 { return f.gc.Seconds() }, false, 0.1},
	} {
		other := math.Inf(1)
		for _, p := range limiterPeers {
			if strings.HasPrefix(p.name, "*") || c.one != (p.name == rateName) {
				continue
			}
			if x := c.of(all[p.name]); x > 0 {
				other = min(other, x)
			}
		}
		line(c.what, max(0, c.of(ours)), other, c.most)
	}
	fmt.Fprintf(&b, "| bytes a key | %.1f | 32 |\n", ours.bytes)
	return b.String()
}
