package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/signal"
)

// service answers after a latency, as decide says. It counts how many it has at
// a time.
type service struct {
	latency time.Duration
	decide  func(n int, now time.Time) (status int, err error)

	mu        sync.Mutex
	times     []time.Time
	now, most int
}

func (s *service) send(ctx context.Context) (seen, error) {
	s.mu.Lock()
	begun := time.Now()
	s.times = append(s.times, begun)
	s.now++
	s.most = max(s.most, s.now)
	status, err := 200, error(nil)
	if s.decide != nil {
		status, err = s.decide(len(s.times), begun)
	}
	s.mu.Unlock()
	select {
	case <-time.After(s.latency):
	case <-ctx.Done():
		status, err = 0, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	return seen{sent: begun, ended: time.Now(), status: status}, err
}

func (s *service) prober(p fit.Plan) *prober {
	return &prober{to: s, reader: reader{dialect: signal.For("")}, plan: p, failures: 3, show: func(string) {}, began: time.Now()}
}

var wide = fit.Plan{Requests: 1000, Refusals: 1000, Time: time.Hour, AtOnce: 100}

// A step keeps its times, however long answers take, up to what may be in
// flight.
func TestStep(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		step    fit.Step
		latency time.Duration
		refuse  int // from the n-th on
		sent    []time.Duration
		most    int
	}{
		{fit.Step{N: 3, Every: 100 * ms, AtOnce: 9, Refusals: 9}, 250 * ms, 99, []time.Duration{0, 100 * ms, 200 * ms}, 3},
		{fit.Step{N: 3, Every: 100 * ms, AtOnce: 1, Refusals: 9}, 250 * ms, 99, []time.Duration{0, 250 * ms, 500 * ms}, 1},
		{fit.Step{N: 4, AtOnce: 2, Refusals: 9}, 250 * ms, 99, []time.Duration{0, 0, 250 * ms, 250 * ms}, 2},
		{fit.Step{N: 9, Every: 100 * ms, AtOnce: 9, Refusals: 2}, 10 * ms, 2, []time.Duration{0, 100 * ms, 200 * ms}, 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &service{latency: test.latency, decide: func(n int, _ time.Time) (int, error) {
				if n >= test.refuse {
					return 429, nil
				}
				return 200, nil
			}}
			p := s.prober(wide)
			test.step.At = time.Now().Add(time.Second)
			if err := p.take(t.Context(), test.step); err != nil {
				t.Fatal(err)
			}
			var sent []time.Duration
			for _, at := range s.times {
				sent = append(sent, at.Sub(test.step.At))
			}
			if fmt.Sprint(sent) != fmt.Sprint(test.sent) || s.most != test.most || len(p.answers) != len(sent) {
				t.Errorf("take(%+v) with answers after %v sent at %v, %d in flight, %d answers; want %v, %d, all",
					test.step, test.latency, sent, s.most, len(p.answers), test.sent, test.most)
			}
		})
	}
}

// Every bound ends a step.
func TestBounds(t *testing.T) {
	refuse := func(int, time.Time) (int, error) { return 429, nil }
	fail := func(n int, _ time.Time) (int, error) {
		if n == 1 {
			return 200, nil
		}
		return 0, errors.New("no answer")
	}
	for _, test := range []struct {
		plan    fit.Plan
		decide  func(int, time.Time) (int, error)
		sent    int
		ended   string
		failure string
	}{
		{fit.Plan{Requests: 7, Refusals: 1000, Time: time.Hour}, nil, 7, "-requests 7", ""},
		{fit.Plan{Requests: 1000, Refusals: 5, Time: time.Hour}, refuse, 5, "-refusals 5", ""},
		{fit.Plan{Requests: 1000, Refusals: 1000, Time: 950 * time.Millisecond}, nil, 10, "-for 950ms", ""},
		{wide, fail, 4, "-failures 3", "find: URL: 3 of 4 requests failed; the last: no answer"},
	} {
		bubble.Test(t, func(t *testing.T) {
			p := (&service{latency: time.Millisecond, decide: test.decide}).prober(test.plan)
			p.url = "URL"
			err := p.take(t.Context(), fit.Step{At: time.Now(), N: 900, Every: 100 * time.Millisecond, AtOnce: 1, Refusals: 900})
			if p.sent != test.sent || p.ended != test.ended || fmt.Sprint(err) != test.failure && err != nil || (err != nil) != (test.failure != "") {
				t.Errorf("with %+v: sent %d, ended by %q, %v; want %d, %q, %s", test.plan, p.sent, p.ended, err, test.sent, test.ended, test.failure)
			}
		})
	}
}

// An interrupt ends a long wait, and all that is in flight, at once.
func TestInterruptedStep(t *testing.T) {
	for _, step := range []fit.Step{
		{N: 5, Every: time.Hour, AtOnce: 2, Refusals: 1},
		{N: 5, AtOnce: 3, Refusals: 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			p := (&service{latency: 30 * time.Minute}).prober(wide)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			step.At = time.Now()
			err := p.take(ctx, step)
			if took := time.Since(p.began); err == nil || !strings.Contains(err.Error(), "interrupted") || took != time.Minute {
				t.Errorf("take(%+v) interrupted after a minute ended after %v by %v", step, took, err)
			}
			if len(p.seen) > 0 {
				t.Errorf("%d answers of requests that were given up", len(p.seen))
			}
		})
	}
}
