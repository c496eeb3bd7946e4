package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The cleaner sends five times what it may, always, so it gets all that its
// bucket gives in the time of an act, and never more than in the time until the
// last answer. Three less, of 27, are tolerated: as much is lost if a busy machine
// keeps it from sending for 100 ms longer than the 200 ms for which the bucket
// saves up.
//
// The latency of the others may be three times that without a flood, or 60 ms,
// three times what the work takes, if that was less. Without the limit it is more
// than that. A machine that is too busy with other things adds to it as well, and lets
// refusals pile up, so that those of the cleaner are told to come later: so
// there are three plays at most, of which one must be good. A limit that does not
// help adds to all.
func TestOthersDoNotNotice(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var told string
	for range 3 {
		acts, err := play(ctx)
		if err != nil {
			t.Fatal(err)
		}
		checkShares(t, acts)
		quiet, limited, unlimited := acts[0].others.Median(), acts[1].others.Median(), acts[2].others.Median()
		bound := 3 * max(quiet, 20*time.Millisecond)
		if unlimited <= bound {
			t.Errorf("median of the others under a flood that nothing limits is %v: the flood is none", unlimited)
		}
		least, most := acts[1].cleaner.Told() // it is alone under its key, so no other comes before it
		if limited <= bound && least >= 1 && most <= 2 {
			return
		}
		told += fmt.Sprintf("median of the others under the flood is %v, want at most %v; the cleaner is told to come again in %d to %d s, want 1 or 2\n",
			limited, bound, least, most)
	}
	t.Error(told)
}

func checkShares(t *testing.T, acts []*act) {
	t.Helper()
	for _, a := range acts {
		if a.others.Sent() == 0 || a.others.Served() != a.others.Sent() {
			t.Errorf("%s: others: %s (sent, served, 429), want all served", a.name, a.others.Row())
		}
	}
	limited, cleaner := acts[1], &acts[1].cleaner
	share := func(d time.Duration) int { return 6 + int(30*d.Seconds()) }
	if n := cleaner.Served(); n > share(limited.took) || n < share(lasts)-3 {
		t.Errorf("the cleaner was served %d times, want %d to %d", n, share(lasts)-3, share(limited.took))
	}
	if cleaner.Served()+cleaner.Refused() != cleaner.Sent() {
		t.Errorf("the cleaner: %s (sent, served, 429), want each served or 429", cleaner.Row())
	}
	if n := cleaner.Untold(); n != 0 {
		t.Errorf("%d refusals do not say when to come again", n)
	}
	var out strings.Builder
	if err := show(&out, acts); err != nil || strings.Count(out.String(), "\n") != 6 {
		t.Errorf("show() = %v, want 6 lines:\n%s", err, &out)
	}
	t.Logf("%v\n%s", limited.took, &out)
}
