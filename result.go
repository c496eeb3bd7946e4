package throttle

import (
	"context"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Result states how one try of a call ended: its report to the limiter, and its
// error. The zero Result teaches nothing and has no error. See
// [Throttle.DoResult].
type Result struct {
	// Report states what to learn, and whether to retry. Its zero value, with
	// the Verdict [pace.Ignored], teaches nothing and is not retried: a success
	// has the Verdict [pace.Served].
	Report pace.Report
	// Scopes state what the answer said of single scopes: limits that only some
	// calls are subject to, see [CallOptions.Needs]. Any answer may have them, a
	// success too. If one of them refused, the Throttle's own limit is not
	// slowed down. A retry is subject to all of them, and waits as long as each
	// of them asks for. Of scopes that the call did not name, at most 16 count,
	// in all its tries together. Of several for one scope, such as limits a
	// minute and a day, the one that refused counts, otherwise the one that
	// leaves least.
	Scopes []ScopeResult
	// Err is the error of the try. If nil, it had none.
	Err error
}

// ScopeResult states what an answer said of one scope.
type ScopeResult struct {
	// Need names the scope. Its Cost estimates the retry in that scope, and
	// counts only if the call did not name the scope itself. An empty Scope is
	// a limit without a pace, such as a lock on one object: its refusal slows
	// down no other call.
	Need
	// Report is for that scope alone: only scopes that refused are slowed down.
	// Its Cost is the actual cost in that scope.
	Report pace.Report
}

// DoResult runs f as Do does, for functions that know more than an error about
// how a try ended: the hints of the server, the actual cost, the scopes that
// refused.
//
// It waits until the limit admits the call, runs f, and retries it while its
// Report is Throttled or Failed and not Final. Once f is Served or Ignored,
// DoResult returns its Err, nil for a success. When it gives up, it returns an
// [*Error] around the last Err. [Throttle.Classify] is not called: f classifies
// the try. In all else it is as [Throttle.Do]; with [CallOptions.Once] it makes
// one try only.
func (t *Throttle) DoResult(ctx context.Context, f func(context.Context) Result) error {
	mustCall(ctx, f != nil)
	return t.do(ctx, f, false)
}

// Report learns from feedback that belongs to no call: a service accepts jobs at
// once, and its queue or consumer is overloaded later. It affects the Control,
// waiting calls and the scopes of r as an answer with that Result would; but it
// ends no call and refunds nothing, and ignores costs and Err.
//
// sent is when the work that the feedback is about was sent: a refusal of work
// sent before the last slowdown slows down no further. If zero, it is when the
// last call started, so many reports between two calls slow down once.
//
// If only such feedback tells of load, let the calls themselves end as Ignored,
// so that a job that was accepted does not count as served. At most 16 of the
// Scopes count. Report does not wait, and keeps none of its arguments.
func (t *Throttle) Report(sent time.Time, r Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	now := t.now()
	t.note(now, r.Report)
	elsewhere := false
	for _, s := range binding(r.Scopes[:min(len(r.Scopes), maxTold)]) {
		elsewhere = elsewhere || s.Report.Verdict == pace.Throttled
		if s.Scope != "" {
			t.reportScope(now, sent, s)
		}
	}
	if !elsewhere || r.Report.Verdict != pace.Throttled { // otherwise that limit refused, not this one
		t.gate.Report(now, sent, t.believe(r.Report))
	}
	t.pump(now, nil)
}

// reportScope is Report for one scope. Caller holds mu.
func (t *Throttle) reportScope(now, sent time.Time, s ScopeResult) {
	x, _ := t.scopes.use(s.Scope, t.MaxScopes)
	defer t.scopes.leave(x, t.MaxScopes) // also when NewScope panics
	t.makeScope(x)
	x.of.Report(now, sent, t.believe(s.Report))
}

// classified returns the Result of a function that returned err.
func (t *Throttle) classified(err error) Result {
	classify := t.Classify
	if classify == nil {
		classify = Classify
	}
	return Result{Report: classify(err), Err: err}
}
