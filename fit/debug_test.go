package fit

import (
	"fmt"
	"os"
)

func init() {
	if os.Getenv("HUNT") == "" {
		return
	}
	debugHook = func(h *hunt) {
		for i := range h.gs {
			g := &h.gs[i]
			fmt.Printf("      %v n=%.4g rate=%.4g P=%.4g edge=%.4g w=%.3g ready=+%.4g idle=+%.4g now=%.4g\n", g.p.kind, g.p.n, g.p.rate, g.p.period, g.p.edge, g.weight, g.ready-h.now, g.idle-h.now, h.now)
		}
		fmt.Printf("      %+v use %g\n", h.bestT, h.bestUse)
	}
}

func (c *scorer) dump(p params) {
	for _, e := range c.events {
		x := 0.0
		if e.n == 0 {
			x = refusedCost(p.n-e.inside, p.n)
		} else {
			x = servedCost(e.inside+1-p.n, p.n)
		}
		if x > 0 {
			fmt.Printf("     at %.4f n=%v inside=%v slack=%v cost %.3g\n", e.to, e.n, e.inside, e.slack, x)
		}
	}
}

func init() {
	if os.Getenv("DUMP") == "" {
		return
	}
	debugHook = func(h *hunt) {
		c := &scorer{tr: h.tr, events: h.tr.events}
		fmt.Println("low", h.tr.low, "jitter", h.tr.jitter, h.tr.latency)
		c.dump(params{kind: Concurrency, n: 80})
	}
}
