package knees

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// An objective is what a service must keep for a rate to count as borne.
type objective struct {
	p99    time.Duration
	errors float64 // share of the requests
}

// A sweep tries rates one after another, in turns, whatever came out before: the
// slow way to the highest rate at which an objective holds. It shares no code
// with throttle find.
type sweep struct {
	client *http.Client
	url    string
	want   objective
	long   time.Duration // of one trial
	rng    *rand.Rand
}

// knee is between the highest rate up to which the objective holds in most of
// the turns and the next rate. Rates rise.
func (s *sweep) knee(t *testing.T, rates []float64, turns int) float64 {
	t.Helper()
	held := make([]int, len(rates))
	for range turns {
		for _, i := range s.rng.Perm(len(rates)) {
			if s.trial(t, rates[i]) {
				held[i]++
			}
			time.Sleep(2 * time.Second)
		}
	}
	var table strings.Builder
	for i, rate := range rates {
		fmt.Fprintf(&table, " %.4g/s: %d", rate, held[i])
	}
	t.Logf("sweep, times held of %d:%s", turns, &table)
	i := slices.IndexFunc(held, func(n int) bool { return 2*n <= turns })
	switch {
	case i == 0:
		t.Fatalf("%.4g/s, the least of the sweep, does not hold", rates[0])
	case i < 0:
		t.Fatalf("%.4g/s, the most of the sweep, holds", rates[len(rates)-1])
	}
	return (rates[i-1] + rates[i]) / 2
}

// trial sends a Poisson process of requests, whether or not earlier ones are
// answered, and tells whether the objective holds at that rate.
func (s *sweep) trial(t *testing.T, rate float64) bool {
	ctx, cancel := context.WithTimeout(t.Context(), s.long+2*time.Second)
	defer cancel()
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		took  []time.Duration
		wrong int
	)
	start := time.Now()
	for at := time.Duration(0); at < s.long; at += time.Duration(s.rng.ExpFloat64() / rate * float64(time.Second)) {
		due := start.Add(at)
		time.Sleep(time.Until(due))
		all.Go(func() {
			err := s.send(ctx)
			d := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
			if err != nil {
				wrong++
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	p99 := took[(len(took)-1)*99/100]
	return p99 <= s.want.p99 && float64(wrong) <= s.want.errors*float64(len(took))
}

func (s *sweep) send(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}
