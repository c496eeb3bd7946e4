package pace

import (
	"testing"
	"time"
)

// TestTrial: all clients yield for the same two minutes of each half hour, of whatever year.
func TestTrial(t *testing.T) {
	for _, from := range []time.Time{{}, time.Unix(-7200, 0), time.Unix(0, 0), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)} {
		for at, want := range map[time.Duration]bool{
			0: true, 119 * time.Second: true, 2 * time.Minute: false, 29 * time.Minute: false, 30 * time.Minute: true, 95 * time.Minute: false,
		} {
			if got := trial(from.Add(at), trialEvery); got != want {
				t.Errorf("%v after %v: %v, want %v", at, from, got, want)
			}
		}
	}
}

// TestRefusedByAnotherLimit: by another limit refuses what says that much remains, and enough for
// what the request costs.
func TestRefusedByAnotherLimit(t *testing.T) {
	for _, c := range []struct {
		name      string
		remaining Opt[int64]
		cost      int64
		verdict   Verdict
		want      bool
	}{
		{"much remains", Some(int64(99_000)), 1, Throttled, true},
		{"it was served", Some(int64(99_000)), 1, Served, false},
		{"little remains", Some(int64(8)), 1, Throttled, false},
		{"too little for its cost", Some(int64(900)), 1000, Throttled, false},
		{"not said", Opt[int64]{}, 1, Throttled, false},
	} {
		a := new(Adaptive)
		o := Outcome{Report: Report{Verdict: c.verdict, Hints: Hints{Remaining: c.remaining}}, Request: Request{Cost: c.cost}}
		if got := a.level.elsewhere(a, &o); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
