package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// No account sends more than it may, 20, in all. An address may use 60 at once
// and one each second after that, in the time that the play took: that, and not
// one more or less, but for the one that may come due while the last is sent.
func TestAccountPoolIsRefusedByAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	groups, took, err := play(ctx)
	if err != nil {
		t.Fatal(err)
	}
	direct, behind, other, profile := groups[0], groups[1], groups[2], groups[3]
	for _, g := range []*group{direct, behind} {
		served, most := g.tally.Served(), 60+int(took.Seconds())
		if served < 60 || served > most {
			t.Errorf("%s at %s: %d served in %v, want 60 to %d", g.name, g.address, served, took, most)
		}
		if g.tally.Sent() != pool*each || served+g.tally.Refused() != pool*each {
			t.Errorf("%s at %s: %s (sent, served, 429), want %d sent and each served or 429", g.name, g.address, g.tally.Row(), pool*each)
		}
		if n := g.tally.Untold(); n != 0 {
			t.Errorf("%s at %s: %d refusals do not say when to come again", g.name, g.address, n)
		}
	}
	for _, g := range []*group{other, profile} {
		if want := len(g.accounts) * each; g.tally.Served() != want {
			t.Errorf("%s: %s (sent, served, 429), want all %d served", g.name, g.tally.Row(), want)
		}
	}
	var out strings.Builder
	if err := show(&out, groups); err != nil || strings.Count(out.String(), "\n") != 5 {
		t.Errorf("show() = %v, want 5 lines:\n%s", err, &out)
	}
	t.Logf("%v\n%s", took, &out)
}
