package pace

import (
	"testing"
	"time"
)

// What remains is of the burst, where the server tells one; and a bucket that
// holds next to nothing is known for what it is.
func TestBurstIsKnown(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	a := &Adaptive{}
	a.Start(now, Request{Since: now})
	a.Observe(now, Outcome{Sent: now, Report: Report{Verdict: Throttled, Hints: Hints{
		Limit: Some(int64(20)), Window: Some(time.Second), Remaining: Some(int64(0)), Burst: Some(int64(2)),
	}}})
	if got := a.Why(now); got.Limit != Some(int64(2)) || got.Remaining != Some(int64(0)) {
		t.Errorf("it says %+v, want 0 of 2 remaining", got)
	}
	if !a.level.tiny || a.level.h > 1 {
		t.Errorf("tiny %v, h %v; want a bucket known to hold 2", a.level.tiny, a.level.h)
	}
	// without time in which it was willing, none is idle
	a.Start(now.Add(time.Hour), Request{})
	if a.idle != 0 {
		t.Errorf("a Request without Since counts %v s as idle, want none", a.idle)
	}
}
