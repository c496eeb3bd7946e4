package pace

import (
	"testing"
	"time"
)

// A service that fails at one request in a hundred with an answer that may mean a limit is
// not slowed down; one that answers nothing else is, at the fifth.
func TestUnsureRefusalsAreExcused(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  func(n int) Report
		pacedAt int // 0: never
	}{
		{"one in a hundred", func(n int) Report { return unsureEvery(n, 100, true) }, 0},
		{"one in twenty", func(n int) Report { return unsureEvery(n, 20, true) }, 0},
		{"one in five", func(n int) Report { return unsureEvery(n, 5, true) }, 30},
		{"all", func(n int) Report { return unsureEvery(n, 1, true) }, 5},
		{"one in a hundred, surely a limit", func(n int) Report { return unsureEvery(n, 100, false) }, 100},
		{"too many at once", func(n int) Report {
			r := unsureEvery(n, 1, true)
			r.Crowded = true
			return r
		}, 1},
	} {
		var a Adaptive
		paced, now := 0, time.Unix(1_700_000_000, 0)
		for n := 1; n <= 1000 && paced == 0; n++ {
			a.Start(now, Request{Since: now})
			now = now.Add(10 * time.Millisecond)
			a.Observe(now, Outcome{Report: c.answer(n), Sent: now.Add(-10 * time.Millisecond)})
			if a.Wait(now, Request{Since: now}) > 0 {
				paced = n
			}
		}
		if paced != c.pacedAt {
			t.Errorf("%s: paced after %d answers, want %d", c.name, paced, c.pacedAt)
		}
	}
}

// unsureEvery returns the n-th answer, of which each so-many-th is a refusal.
func unsureEvery(n, every int, unsure bool) Report {
	if n%every > 0 {
		return Report{Verdict: Served}
	}
	return Report{Verdict: Throttled, Unsure: unsure}
}

// A clock that goes back does not make the base to which a client goes back a smaller one.
func TestBaseWhenTheClockGoesBack(t *testing.T) {
	a := Adaptive{doubt: doubt{refBase: 10, since: 86_400}}
	a.on, a.base = true, 1
	a.goBack(60)
	if a.base != 10 || a.doubt.refBase != 10 {
		t.Errorf("at %v a second, from a base of %v, want 10 of 10", a.base, a.doubt.refBase)
	}
}
