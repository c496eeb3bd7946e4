package throttle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// Status says what waits, by priority and key, what is in flight, and what the
// server said.
func TestStatus(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		th := Throttle{Control: &pace.Fixed{Rate: 0.1}, MaxInFlight: 5, Weights: map[load.Priority]float64{load.High: 4, load.Low: 1}}
		call := func(o CallOptions, f func(context.Context) Result) {
			go th.DoResult(WithOptions(t.Context(), o), f)
			time.Sleep(time.Second)
		}
		served := func(context.Context) Result { return Result{Report: pace.Report{Verdict: pace.Served}} }
		refused := true
		call(CallOptions{Key: "a"}, func(context.Context) Result {
			if !refused {
				return Result{Report: pace.Report{Verdict: pace.Served}}
			}
			refused = false
			return Result{Report: pace.Report{Verdict: pace.Throttled, After: time.Minute, Hints: pace.Hints{Remaining: pace.Some(int64(0))}}}
		})
		call(CallOptions{Key: "b", Priority: load.High}, served)
		call(CallOptions{Key: "b", Priority: load.High}, served)
		call(CallOptions{Key: "b", Priority: load.Critical, Needs: []Need{{Scope: "s"}}}, served)

		s := th.Status()
		sec := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
		slices.SortFunc(s.Queues, func(a, b pace.Queue) int { return int(a.Priority) - int(b.Priority) })
		want := []pace.Queue{
			{Priority: load.Normal, Key: "b", Waiting: 1, Oldest: sec(3)},
			{Lane: 2, Priority: load.High, Key: "b", Waiting: 2, Oldest: sec(1)},
		}
		if !slices.Equal(s.Queues, want) {
			t.Errorf("queues\n got %v\nwant %v", s.Queues, want)
		}
		if s.Waiting != 4 || s.Resting != 1 || !s.Rested.Equal(sec(60)) || s.InFlight != 0 || s.MaxInFlight != 5 || !s.At.Equal(sec(4)) {
			t.Errorf("%+v", s)
		}
		if s.Why.Rate != 0.1 || s.Why.Source != pace.SourceSet {
			t.Errorf("paced by %+v, want 0.1 as set", s.Why)
		}
		if s.Next != th.Forecast(4) || s.Next <= 0 { // the resting call comes later
			t.Errorf("the next in %v, want as Forecast, %v", s.Next, th.Forecast(4))
		}
		if s.Said.After != time.Minute || !s.SaidAt.Equal(began) || s.Said.Hints.Remaining != pace.Some(int64(0)) {
			t.Errorf("said %+v at %v", s.Said, s.SaidAt)
		}
		if len(s.Scopes) != 1 || s.Scopes[0].Scope != "s" || s.Scopes[0].Waiting != 1 || s.Scopes[0].Why.Source != pace.SourceNone {
			t.Errorf("scopes %+v", s.Scopes)
		}
		th.Report(time.Time{}, Result{Report: pace.Report{Verdict: pace.Throttled}})
		time.Sleep(time.Hour) // all have ended
		s = th.Status()
		if s.Waiting != 0 || s.Queues != nil || s.Resting != 0 || !s.Rested.IsZero() || !s.SaidAt.Equal(sec(4)) || s.Said.After != 0 {
			t.Errorf("in the end %+v", s)
		}
	})
}

// The first look makes nothing that a call would find changed.
func TestStatusOfUnused(t *testing.T) {
	var th Throttle
	if s := th.Status(); s.Waiting != 0 || s.MaxInFlight != 0 || s.Why != (pace.Why{}) || s.Next != 0 || !s.SaidAt.IsZero() {
		t.Errorf("%+v", s)
	}
	th.Restore(pace.Learnt{At: time.Now(), Rate: 3})
	if s := th.Status(); s.Why.Source != pace.SourceRestored || s.Why.Rate < 2 {
		t.Errorf("restored: %+v", s.Why)
	}
}

// A scope whose Control panics when it is asked leaves the lock free.
func TestStatusAfterPanic(t *testing.T) {
	th := Throttle{Control: pace.All{new(pace.Fixed), wild{}}}
	func() {
		defer func() {
			if p := recover(); p == nil {
				t.Error("no panic")
			}
		}()
		th.Status()
	}()
	th.Waiting() // blocks for good if the lock is held
}

type wild struct{ pace.Fixed }

func (wild) Wait(time.Time, pace.Request) time.Duration    { panic("wild") }
func (wild) Start(time.Time, pace.Request)                 {}
func (wild) Observe(time.Time, pace.Outcome) time.Duration { return 0 }

// All lists what Enter has made, and makes nothing itself.
func TestGroupAll(t *testing.T) {
	var g Group
	list := func() string {
		var all []string
		for name, th := range g.All() {
			m := g.Enter(name)
			if m.Throttle() != th {
				t.Errorf("%s: another Throttle than that of Enter", name)
			}
			m.Leave()
			all = append(all, name)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	if got := list(); got != "" {
		t.Errorf("an unused Group has %q", got)
	}
	inside, goOn := make(chan bool), make(chan bool)
	g.New = func(name string) *Throttle {
		switch name {
		case "bad":
			panic("bad")
		case "slow":
			inside <- true
			<-goOn
		}
		return nil
	}
	g.Enter("a").Leave()
	g.Enter("b")
	func() {
		defer func() { _ = recover() }()
		g.Enter("bad")
	}()
	done := make(chan bool)
	go func() { g.Enter("slow"); close(done) }()
	<-inside
	if got := list(); got != "a b" { // and it waits for no New
		t.Errorf("%q, want a b", got)
	}
	close(goOn)
	<-done
	if got := list(); got != "a b slow" {
		t.Errorf("%q, want a b slow", got)
	}
	for range g.All() {
		break
	}
}
