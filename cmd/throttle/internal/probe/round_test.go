package probe

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/fit"
)

func TestRounded(t *testing.T) {
	at := time.Unix(1_767_366_243, 200_000_000)
	for _, test := range []struct {
		is   fit.Candidate
		want fit.Model
	}{
		{
			fit.Candidate{Model: fit.Model{Kind: fit.TokenBucket, Rate: 98.7, Burst: 10}, RateIn: fit.Interval{Low: 97.8, High: 100.6}, BurstIn: fit.Interval{Low: 9.6, High: 10.3}},
			fit.Model{Kind: fit.TokenBucket, Rate: 100, Burst: 10},
		},
		{
			fit.Candidate{Model: fit.Model{Kind: fit.TokenBucket, Rate: 98.123, Burst: 17}, RateIn: fit.Interval{Low: 98, High: 98.3}, BurstIn: fit.Interval{Low: 16.7, High: 17.2}},
			fit.Model{Kind: fit.TokenBucket, Rate: 98, Burst: 17},
		},
		{
			fit.Candidate{Model: fit.Model{Kind: fit.TokenBucket, Rate: 0.2987, Burst: 1}, RateIn: fit.Interval{Low: 0.29, High: 0.31}},
			fit.Model{Kind: fit.TokenBucket, Rate: 0.3, Burst: 1},
		},
		{
			fit.Candidate{
				Model:    fit.Model{Kind: fit.FixedWindow, Rate: 3.08, Count: 31, Period: 10_054_605_511, Phase: 5_310_000_000},
				PeriodIn: fit.Interval{Low: 9.52, High: 10.27}, CountIn: fit.Interval{Low: 29.7, High: 31.6}, Edge: at,
			},
			fit.Model{Kind: fit.FixedWindow, Rate: 3, Count: 30, Period: 10 * time.Second, Phase: 3200 * time.Millisecond},
		},
		{
			fit.Candidate{Model: fit.Model{Kind: fit.SlidingLog, Rate: 20 / 3.4567, Count: 20, Period: 3_456_700_000}, PeriodIn: fit.Interval{Low: 3.45, High: 3.46}},
			fit.Model{Kind: fit.SlidingLog, Rate: 20 / 3.46, Count: 20, Period: 3_460_000_000},
		},
		{fit.Candidate{Model: models[0]}, models[0]},
		{fit.Candidate{Model: models[8]}, models[8]},
	} {
		f := &findings{Result: fit.Result{Candidates: []fit.Candidate{test.is}}}
		if got := f.rounded(); got != test.want {
			t.Errorf("rounded %+v = %+v, want %+v", test.is, got, test.want)
		}
	}
}

// TestRoundRate: the rule has the rate that people would choose in the interval that is
// printed, by the unit that they would.
func TestRoundRate(t *testing.T) {
	const minute, hour = 1. / 60, 1. / 3600
	for _, test := range []struct {
		rate, low, high float64 // a second
		want            string
	}{
		{4.972, 4.9441, 4.99989, "5/s"}, // the end is printed as 5
		{4.972, 4.9441, 4.9994, "298/min"},
		{4.91, 4.88, 4.92, "49/10s"},
		{12.1, 11.6, 12.4, "12/s"},
		{16.6, 16.2, 17.2, "17/s"},
		{0.503, 0.49, 0.52, "30/min"},
		{4.95 * minute, 4.8 * minute, 5.1 * minute, "5/min"},
		{20.2 * minute, 19.5 * minute, 20.7 * minute, "20/min"},
		{99 * minute, 96 * minute, 102 * minute, "100/min"},
		{123.2 * minute, 122.6 * minute, 123.2 * minute, "123/min"},
		{101 * hour, 98 * hour, 104 * hour, "100/h"},
		{4950 * hour, 4850 * hour, 5100 * hour, "5000/h"},
		{998 * hour / 24, 991 * hour / 24, 1005 * hour / 24, "1000/day"},
	} {
		f := &findings{Result: fit.Result{Candidates: []fit.Candidate{{
			Model:  fit.Model{Kind: fit.TokenBucket, Rate: test.rate, Burst: 10},
			RateIn: fit.Interval{Low: test.low, High: test.high}, BurstIn: fit.Interval{Low: 9.6, High: 10.3},
		}}}}
		if l, ok := f.asLimit(); !ok || l.String() != test.want+" burst 10" {
			t.Errorf("%.5g within %.5g and %.5g is %v, %v; want %s burst 10", test.rate, test.low, test.high, l, ok, test.want)
		}
	}
}
