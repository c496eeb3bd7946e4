package admit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
)

func live(t *testing.T, text string) *rules.Live {
	t.Helper()
	c, err := rules.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	l := new(rules.Live)
	l.Swap(c)
	return l
}

// What a request holds is free again after each of its ends, whatever bounds the requests
// in flight: MaxInFlight of each key, with a Limit or without, a rule, or a Shedder.
func TestControlReleases(t *testing.T) {
	many := limit.Limit{Count: 1000, Period: time.Hour}
	for name, end := range map[string]func(*admit.Admission){
		"Done": (*admit.Admission).Done, "Forget": (*admit.Admission).Forget,
		"GiveBack": func(a *admit.Admission) { _ = a.GiveBack() },
	} {
		for bound, c := range map[string]*admit.Control{
			"MaxInFlight":          {MaxInFlight: 1},
			"MaxInFlight of Limit": {MaxInFlight: 1, Limit: many},
			"a rule":               {Rules: live(t, `{"rules": [{"name": "one", "key": "client", "in_flight": 1}]}`)},
			"a Shedder":            {Shed: &admit.Shedder{MaxInFlight: 1, MaxWait: -1}},
		} {
			begin := func(client string) *admit.Admission {
				a, err := c.Begin(t.Context(), admit.Request{Request: rules.Request{Client: client}})
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			for range 2 {
				first := begin("a")
				if second := begin("a"); !first.OK || second.OK {
					t.Errorf("%s of 1: the first %v, the second %v", bound, first.Verdict, second.Verdict)
				}
				if other := begin("b"); other.OK != (bound != "a Shedder") {
					t.Errorf("%s of 1: another client %v", bound, other.Verdict)
				} else {
					end(other)
				}
				end(first)
			}
			if a := begin("a"); !a.OK {
				t.Errorf("%s of 1: %v after %s", bound, a.Verdict, name)
			}
		}
	}
}

// Work has the Priority of its Request, or else that of its rule; and the Stats of the
// Shedder say what became of it.
func TestControlPriorities(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		shed := &admit.Shedder{MaxInFlight: 1, MaxWait: -1}
		c := &admit.Control{Shed: shed, Rules: live(t, `{"rules": [{"name": "all", "priority": "low"}]}`)}
		var took time.Duration
		c.OnEvent = func(e admit.Event) { took = e.Took }
		for _, p := range []load.Priority{0, load.High, 0} {
			a, err := c.Begin(t.Context(), admit.Request{Priority: p})
			if err != nil || !a.OK || took != 0 {
				t.Fatalf("%v, %v, took %v", a.Verdict, err, took)
			}
			if b, _ := c.Begin(t.Context(), admit.Request{Priority: load.Critical}); b.OK {
				t.Error("a second one in flight")
			}
			time.Sleep(time.Second)
			a.Done()
		}
		want := admit.ShedderStats{Limit: 1, Took: time.Second}
		want.Passed[load.Low.Index()], want.Passed[load.High.Index()], want.Refused[load.Critical.Index()] = 2, 1, 3
		if got := shed.Stats(); got != want {
			t.Errorf("Stats() = %+v, want %+v", got, want)
		}
	})
}

// Took is how long a request waited for its answer. What was cut short by its context
// teaches the Shedder nothing, and one that has ended gets no place.
func TestControlTook(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		shed := &admit.Shedder{MaxInFlight: 1, MaxWait: -1}
		c := &admit.Control{Shed: shed, Limit: limit.Limit{Count: 10, Period: time.Hour}}
		var took time.Duration
		c.OnEvent = func(e admit.Event) { took = e.Took }
		ctx, cancel := context.WithCancel(t.Context())
		q := admit.Request{Request: rules.Request{Cost: func(string) int64 { time.Sleep(time.Second); return 1 }}}
		a, err := c.Begin(ctx, q)
		if err != nil || !a.OK || took != time.Second {
			t.Errorf("%v, %v, took %v; want it admitted after a second", a.Verdict, err, took)
		}
		time.Sleep(time.Minute)
		cancel()
		a.Done()
		if s := shed.Stats(); s.Took != 0 || s.InFlight != 0 {
			t.Errorf("after a request that was cut short: %+v, want nothing learned, and nothing in flight", s)
		}
		if _, err := shed.Acquire(ctx, load.Normal); !errors.Is(err, context.Canceled) || shed.Stats().InFlight != 0 {
			t.Errorf("Acquire with a context that has ended: %v, %+v", err, shed.Stats())
		}
	})
}

// The share of each of four callers of one limit is about a quarter of it. The number of
// callers is estimated by hashes: of few keys it is another.
func TestShareOfSeveral(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &admit.Control{Limit: limit.Limit{Count: 100, Period: time.Second}}
		share := map[string]float64{}
		for i := range 40 * 16 {
			key := string(rune('a' + i%16))
			a, err := c.Begin(t.Context(), admit.Request{Key: key, Caller: key + string(rune('a'+i/16%4))})
			if err != nil || !a.OK {
				t.Fatalf("%v, %v", a.Verdict, err)
			}
			share[key] = a.Share()
			time.Sleep(time.Millisecond)
		}
		odd := 0
		for _, s := range share {
			if s < 20 || s > 30 {
				odd++
			}
		}
		if odd > 4 {
			t.Errorf("Share() of 16 keys = %v a second, want some 25", share)
		}
	})
}
