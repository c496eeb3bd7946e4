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
