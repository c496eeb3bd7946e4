package fit_test

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/fit"
)

// missed reports whether the kind is not decided, although the answers are more
// than 99 times as likely under the truth as under any other kind. Where the
// kind is found and a parameter is not known to 4 %, the kinds are separated.
func (o *outcome) missed() bool {
	return !o.kindDecided() && fit.Ratio(o.answers, o.truth, o.others) > math.Log(99)
}

// TestLikelihoodRatio: servers drawn at random, with a small budget. Of those
// that are not decided, none is told from other kinds by its true parameters.
func TestLikelihoodRatio(t *testing.T) {
	n := 24
	if raced {
		n = 3
	}
	undecided := 0
	for seed := range uint64(n) {
		s := draw(700_000 + seed)
		o := identify(s, fit.Plan{Requests: 400, Refusals: 24, Time: 6 * time.Hour, AtOnce: 16})
		if o.Decided {
			continue
		}
		undecided++
		if o.missed() {
			t.Errorf("seed %d: %v, others %.0f %%, is not decided (%s, %d sent, %d refused), and the truth is e^%.1f times as likely as any other kind", seed,
				s.truth, 100*s.others/s.rate, o.Why, o.sent, o.refused, fit.Ratio(o.answers, s.truth, s.others))
		}
	}
	t.Logf("%d of %d undecided", undecided, n)
	if undecided == 0 && !raced {
		t.Error("all are decided, so nothing is tested: want a smaller budget")
	}
}
