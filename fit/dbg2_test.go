package fit_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/throttle-go/throttle/fit"
)

func TestDebugMany(t *testing.T) {
	n, from := setting("FIT_SERVERS", 0), setting("FIT_FROM", 0)
	byKind := map[string]*tally{}
	var sum tally
	sep := 0
	for seed := from; seed < from+n; seed++ {
		s := draw(uint64(seed))
		if os.Getenv("FIT_SHARED") != "" && s.others == 0 || os.Getenv("FIT_ALONE") != "" && s.others > 0 {
			continue
		}
		if k := s.truth.Kind; os.Getenv("FIT_HARD") != "" && (k == fit.Unlimited || k == fit.Delay) {
			continue
		}
		o := identify(s, fit.Plan{})
		for _, x := range []*tally{&sum, of(byKind, label(s.truth)), of(byKind, "others "+strconv.FormatBool(s.others > 0))} {
			x.add(&o)
		}
		kind, params := o.right()
		mark := map[bool]string{true: "ok"}[kind && params]
		if o.Decided && mark == "ok" {
			continue
		}
		truth := 0.0
		d := fit.Ratio(o.answers, s.truth, s.others)
		if o.missed() {
			sep++
			mark += " MISSED"
		}
		t.Logf("%-2s %d decided %t kind %t parameters %t: [%v] found [%v], others %.0f %%, %d steps, %d sent, %d refused, %.3gs lr %.1f truth %.1f %s", mark, seed, o.Decided,
			kind, params, s.truth, o.Candidates[0].Model, 100*s.others/s.rate, o.steps, o.sent, o.refused, o.took.Seconds(), d, truth, o.Why)
	}
	t.Logf("separated %d\n%s%s%s", sep, head, sum.row("all"), rows(byKind))
}
