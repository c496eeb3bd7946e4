package survey

import (
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// cell is of two processes on 1 a second, a second away: an interval is 2 s.
func cell(mode Mode) Cell {
	c := Cell{Mode: mode, Rate: 1, Burst: 6, Processes: 2}
	c.Scenario.Network.Latency = time.Second
	return c
}

// bound is what the judged are compared with.
var bound = Figures{Sent: 1000, Served: 1000, Jain: 1, Wait: 10, Finish: 100}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name     string
		mode     Mode
		informed bool
		change   func(*Figures)
		missed   []string
	}{
		{"the bound", Closed, true, func(*Figures) {}, nil},
		{"on every bar", Closed, true, func(f *Figures) { f.Retry, f.Served, f.Jain, f.Wait = 0.05, 900, 0.9, 40 }, nil},
		{"beyond every bar", Closed, true, func(f *Figures) { f.Retry, f.Served, f.Jain, f.Wait = 0.051, 899, 0.89, 40.1 }, []string{"throttled", "used", "jain", "wait"}},
		{"blind", Open, false, func(f *Figures) { f.Retry = 0.1 }, nil},
		{"too blind", Open, false, func(f *Figures) { f.Retry = 0.101 }, []string{"throttled"}},
		{"cut", Closed, true, func(f *Figures) { f.Cut = true }, []string{"throttled"}},
		{"nothing served", Closed, true, func(f *Figures) { *f = Figures{Wait: Never, Finish: Never} }, []string{"used", "jain", "wait"}},
		{"job", Job, true, func(f *Figures) { f.Finish, f.Jain, f.Served = 152, 0.1, 1 }, nil},
		{"late", Job, true, func(f *Figures) { f.Finish = 152.1 }, []string{"finish"}},
		{"never done", Job, true, func(f *Figures) { f.Finish = Never }, []string{"finish"}},
	} {
		f := bound
		test.change(&f)
		v := cell(test.mode).Judge(f, bound, test.informed)
		if got := v.Missed(); !slices.Equal(got, test.missed) || v.Held() != (test.missed == nil) {
			t.Errorf("%s: misses %q and held %v, want %q", test.name, got, v.Held(), test.missed)
		}
	}
}

func TestBeats(t *testing.T) {
	ours := Figures{Sent: 1000, Served: 960, Throttled: 40, Retry: 0.04, Jain: 1, Wait: 20, Finish: 100}
	for _, test := range []struct {
		name   string
		mode   Mode
		change func(*Figures)
		want   bool
	}{
		{"ours", Closed, func(*Figures) {}, false},
		{"sooner", Closed, func(f *Figures) { f.Wait = 12.9 }, true},
		{"by a quarter, but an interval", Closed, func(f *Figures) { f.Wait = 13.1 }, false},
		{"refused as much as it may be", Closed, func(f *Figures) { f.Wait, f.Throttled = 1, 100 }, true},
		{"refused too often", Closed, func(f *Figures) { f.Wait, f.Throttled = 1, 101 }, false},
		{"serves less", Closed, func(f *Figures) { f.Wait, f.Served = 1, 860 }, false},
		{"cut", Closed, func(f *Figures) { f.Wait, f.Cut = 1, true }, false},
		{"finishes sooner", Job, func(f *Figures) { f.Finish = 70 }, true},
		{"there is nothing to finish", Closed, func(f *Figures) { f.Finish = 70 }, false},
	} {
		f := ours
		test.change(&f)
		if got := cell(test.mode).Beats(f, ours); got != test.want {
			t.Errorf("%s: wins %v, want %v", test.name, got, test.want)
		}
	}
	never := ours
	never.Wait, ours.Wait = Never, Never
	if cell(Closed).Beats(never, ours) {
		t.Error("never is not sooner than never")
	}
}

func TestWorse(t *testing.T) {
	before := Figures{Sent: 1000, Served: 950, Retry: 0.05, Jain: 0.95, Wait: 20, Finish: 110}
	for _, test := range []struct {
		name          string
		mode          Mode
		change        func(*Figures)
		missed, loses bool
	}{
		{"the same", Closed, func(*Figures) {}, false, false},
		{"a point", Closed, func(f *Figures) { f.Retry = 0.06 }, false, false},
		{"more than a point", Closed, func(f *Figures) { f.Retry = 0.0601 }, false, true},
		{"beyond the blind bar", Closed, func(f *Figures) { f.Retry = 0.11 }, true, true},
		{"an interval", Closed, func(f *Figures) { f.Wait = 22 }, false, false},
		{"more than an interval", Closed, func(f *Figures) { f.Wait = 22.1 }, false, true},
		{"a tenth less served", Closed, func(f *Figures) { f.Served = 854 }, true, true},
		{"less fair", Closed, func(f *Figures) { f.Jain = 0.84 }, true, true},
		{"later", Job, func(f *Figures) { f.Finish = 122 }, false, true},
	} {
		f := before
		test.change(&f)
		missed, loses := cell(test.mode).Worse(f, before, bound)
		if missed != test.missed || loses != test.loses {
			t.Errorf("%s: missed %v and loses %v, want %v and %v", test.name, missed, loses, test.missed, test.loses)
		}
	}
}

func TestInformed(t *testing.T) {
	all := sim.Hints{Remaining: true, RetryAfter: true, Reset: true, Policy: true}
	for _, test := range []struct {
		told, hears sim.Hints
		want        bool
	}{
		{all, all, true},
		{sim.Hints{Remaining: true}, all, true},
		{sim.Hints{Policy: true}, all, true},
		{sim.Hints{RetryAfter: true, Reset: true}, all, false},
		{all, sim.Hints{RetryAfter: true}, false},
	} {
		c := cell(Closed)
		c.Scenario.Server.Hints = test.told
		if got := c.Informed(test.hears); got != test.want {
			t.Errorf("told %+v, hearing %+v: informed %v, want %v", test.told, test.hears, got, test.want)
		}
	}
}

func TestMeasure(t *testing.T) {
	some := pace.Some[float64]
	f := Measure([]sim.Result{
		{Sent: 10, Served: 9, Throttled: 1, RetryRate: some(0.1), WaitP99: some(3), Finish: some(9)},
		{Sent: 20, Served: 20, RetryRate: some(0), WaitP99: some(1)},
		{Sent: 30, Served: 10, Throttled: 20, RetryRate: some(0.67), Cut: true},
	})
	want := Figures{Sent: 20, Served: 10, Throttled: 1, Retry: 0.1, Wait: 3, Finish: Never}
	if f != want {
		t.Errorf("Measure = %+v, want %+v", f, want)
	}
}
