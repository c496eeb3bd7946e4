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
