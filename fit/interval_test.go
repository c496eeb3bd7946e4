package fit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/fit"
)

// Answers of which no kind makes sense have parameters and intervals all the same,
// of which none is below zero.
func TestNoParameterIsNegative(t *testing.T) {
	begin := time.Unix(1.7e9, 0)
	for seed := uint64(200); seed < 210; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		n, share := 4+r.IntN(40), r.Float64()
		var answers []fit.Answer
		for range n {
			a := fit.Answer{Sent: begin.Add(time.Duration(r.Float64() * 1e9)), Refused: r.Float64() < share}
			a.Ended = a.Sent.Add(time.Duration(r.Float64() * 1e8))
			answers = append(answers, a)
		}
		for _, c := range fit.Fit(answers).Candidates {
			least := min(c.RateIn.Low, c.BurstIn.Low, c.CountIn.Low, c.PeriodIn.Low, c.InFlightIn.Low)
			if c.Burst < 0 || c.Count < 0 || least < 0 {
				t.Errorf("seed %d: %v, burst in %v, count in %v; want nothing below zero", seed, c.Model, c.BurstIn, c.CountIn)
			}
		}
	}
}
