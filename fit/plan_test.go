package fit_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/throttle-go/throttle/fit"
)

func TestOne(t *testing.T) {
	seed, err := strconv.Atoi(os.Getenv("SEED"))
	if err != nil {
		t.Skip()
	}
	debug = true
	s := draw(uint64(seed))
	t.Logf("truth %v, others %.3g/s, latency %v jitter %v hold %v", s.truth, s.others, s.delay, s.jitter, s.hold)
	o := identify(s, fit.Plan{})
	k, p := o.right()
	t.Logf("decided %v %q kind %v params %v sent %d refused %d took %v unexplained %d", o.Decided, o.Why, k, p, o.sent, o.refused, o.took, o.Unexplained)
	for _, c := range o.Candidates {
		t.Logf("%8.2f %5.3f %v  %+v", c.LogLikelihood, c.Share, c.Model, c)
	}
}

func TestMany(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("MANY"))
	if err != nil {
		t.Skip()
	}
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	decided, kinds, params := 0, 0, 0
	for seed := from; seed < from+n; seed++ {
		o := identify(draw(uint64(seed)), fit.Plan{})
		k, p := o.right()
		if o.Decided {
			decided++
			if k {
				kinds++
			}
			if p {
				params++
			}
		}
		mark := "ok "
		switch {
		case !o.Decided:
			mark = "?  "
		case !k:
			mark = "KIND"
		case !p:
			mark = "PAR"
		}
		t.Logf("%s %d truth [%v] others %.2g got [%v] steps %d sent %d refused %d took %.3gs %s", mark, seed, o.truth, o.others/o.rate, o.Candidates[0].Model, o.steps, o.sent, o.refused, o.took.Seconds(), o.Why)
	}
	t.Logf("decided %d of %d, kind right %d, params right %d", decided, n, kinds, params)
}
