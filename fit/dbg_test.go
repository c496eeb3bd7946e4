package fit_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/fit"
)

func TestDebugOne(t *testing.T) {
	for _, f := range strings.Fields(os.Getenv("DBG")) {
		n, _ := strconv.Atoi(f)
		s := draw(uint64(n))
		fmt.Printf("== %d %v others %.3g delay %v jitter %v hold %v\n", n, s.truth, s.others/s.rate, s.delay, s.jitter, s.hold)
		debug = true
		o := identify(s, fit.Plan{})
		debug = false
		for _, c := range o.Candidates {
			fmt.Printf("   %v ll %.2f rate %v burst %v count %v period %v infl %v\n", c.Model, c.LogLikelihood, c.RateIn, c.BurstIn, c.CountIn, c.PeriodIn, c.InFlightIn)
		}
		fmt.Println(o.Decided, o.Why, "ratio", fit.Ratio(o.answers, s.truth, s.others))
	}
}
