package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// The reports call so often that they get all the full answers that there are for
// them in the time of the act, and never more than in the time until the last
// answer. Three less, a tenth, are tolerated: a machine may be late by 150 ms.
// Slowed down to half their limit, only their first call may come too early.
func TestDegradedInsteadOfRefused(t *testing.T) {
	p := newPrices()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	acts, err := play(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	flood, shop, slower, few := acts[0], acts[1], acts[2], acts[3]
	share := func(d time.Duration) int { return 20 + int(20*d.Seconds()) }
	if n := flood.full.Served(); n > share(flood.took) || n < share(lasts)-3 {
		t.Errorf("%s: %d full answers, want %d to %d", flood.name, n, share(lasts)-3, share(flood.took))
	}
	if n := flood.full.Sent(); flood.full.Served() != n || flood.cached.Served() != flood.cached.Sent() || flood.cached.Sent() < n {
		t.Errorf("%s: %s and %s (sent, served, 429), want all served, and more cached than full", flood.name, flood.full.Row(), flood.cached.Row())
	}
	if shop.cached.Sent() != 0 || shop.full.Served() != shop.full.Sent() || shop.full.Sent() == 0 {
		t.Errorf("%s: %s full and %s cached (sent, served, 429), want all full", shop.name, shop.full.Row(), shop.cached.Row())
	}
	if slower.cached.Sent() > 1 || slower.full.Served() < 5 {
		t.Errorf("%s: %d cached, %d full; want 1 at most, and 5 at least", slower.name, slower.cached.Sent(), slower.full.Served())
	}
	if full, cached := few.full.Row(), few.cached.Row(); full != "2|1|1" || cached != "1|1|0" || few.full.Untold() != 0 {
		t.Errorf("%s: %s full and %s cached (sent, served, 429), want 2|1|1 and 1|1|0", few.name, full, cached)
	}
	if got, want := p.computed["reports"], flood.full.Served()+slower.full.Served(); got != want {
		t.Errorf("computed %d times for the reports, want %d, as many as full answers", got, want)
	}
	var out strings.Builder
	if err := show(&out, acts); err != nil || strings.Count(out.String(), "\n") != 5 {
		t.Errorf("show() = %v, want 5 lines:\n%s", err, &out)
	}
	t.Logf("%v\n%s", flood.took, &out)
}
