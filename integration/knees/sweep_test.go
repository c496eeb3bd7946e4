package knees

import (
	"context"
	"fmt"
	"io"
	"math"
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
	sent   int // requests
}

// turn tries every rate once, in a random order, and counts in held those that hold.
func (s *sweep) turn(t *testing.T, rates []float64, held []int) {
	t.Helper()
	for _, i := range s.rng.Perm(len(rates)) {
		if s.trial(t, rates[i]) {
			held[i]++
		}
		s.settle(t)
	}
}

// settle waits until a service has done what it was left with: twenty requests in a
// row, one after another, are served within the objective.
func (s *sweep) settle(t *testing.T) {
	t.Helper()
	time.Sleep(2 * time.Second)
	for row, began := 0, time.Now(); row < 20; row++ {
		start := time.Now()
		if err := s.send(t.Context()); err != nil || time.Since(start) > s.want.p99 {
			row = -1
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the service has not recovered a minute after a trial")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// knee is between the two neighbours of the rates, which rise, that divide best
// what held in most of the turns from what did not. It must lie within the rates.
func knee(t *testing.T, rates []float64, held []int, turns int) float64 {
	t.Helper()
	var table strings.Builder
	for i, rate := range rates {
		fmt.Fprintf(&table, " %.4g/s: %d", rate, held[i])
	}
	t.Logf("sweep, times held of %d:%s", turns, &table)
	low, high := divide(held, turns)
	switch {
	case low == 0:
		t.Fatalf("%.4g/s, the least of the sweep, does not hold", rates[0])
	case high == len(rates):
		t.Fatalf("%.4g/s, the most of the sweep, holds", rates[len(rates)-1])
	}
	return math.Sqrt((rates[low-1] + rates[low]) / 2 * (rates[high-1] + rates[high]) / 2)
}

// divide returns how many rates lie below the knee: the number k that makes the
// trials below it that held, and those above it that did not, the most. (The first
// rate that fails would be no estimate: a machine that stalls now and then makes
// one of several low rates fail nearly always.) Of several such numbers it returns
// the lowest and the highest.
func divide(held []int, turns int) (low, high int) {
	most := -1
	for k := range len(held) + 1 {
		right := 0
		for i, n := range held {
			if i < k {
				right += n
			} else {
				right += turns - n
			}
		}
		if right > most {
			most, low = right, k
		}
		if right == most {
			high = k
		}
	}
	return low, high
}

func TestSweepDivides(t *testing.T) {
	for _, c := range []struct {
		held      []int
		low, high int
	}{
		{[]int{3, 3, 3, 0, 0, 0}, 3, 3},
		{[]int{3, 1, 3, 3, 0, 0}, 4, 4}, // a stall at a low rate
		{[]int{3, 3, 1, 2, 0, 0}, 2, 4},
		{[]int{0, 0}, 0, 0},
		{[]int{3, 3}, 2, 2},
	} {
		if low, high := divide(c.held, 3); low != c.low || high != c.high {
			t.Errorf("%v of 3 divides at %d to %d, want %d to %d", c.held, low, high, c.low, c.high)
		}
	}
}

const watched = 120 // seconds after a push

// recovers pushes a service to a rate for a while, goes back to another without a
// pause, and watches for two minutes how long it takes until it is well: from then on
// at most one second in eight has more than 5 % of requests that are slow or fail.
func (s *sweep) recovers(t *testing.T, pushed float64, long time.Duration, back float64) (took time.Duration) {
	t.Helper()
	var (
		all sync.WaitGroup
		mu  sync.Mutex
		bad [watched]float64
		out [watched]float64
	)
	start := time.Now()
	rate := pushed
	for at := time.Duration(0); at < long+watched*time.Second; at += time.Duration(s.rng.ExpFloat64() / rate * float64(time.Second)) {
		if at >= long {
			rate = back
		}
		due := start.Add(at)
		time.Sleep(time.Until(due))
		all.Go(func() {
			err := s.send(t.Context())
			slow := err != nil || time.Since(due) > s.want.p99
			if at < long {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			second := min(int((at-long)/time.Second), watched-1)
			out[second]++
			if slow {
				bad[second]++
			}
		})
	}
	all.Wait()
	sick, well := 0, watched
	for i := watched - 1; i >= 0; i-- {
		if bad[i] > max(1, 0.05*out[i]) {
			sick++
		} else if 8*sick <= watched-i {
			well = i
		}
	}
	return time.Duration(well) * time.Second
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
	s.sent += len(took)
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
