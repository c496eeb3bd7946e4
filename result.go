package throttle

import (
	"context"

	"github.com/throttle-go/throttle/pace"
)

// Result is how one try of a call ended: what to learn from it, and its error.
// The zero Result teaches nothing and has no error. See [Throttle.DoResult].
type Result struct {
	// Report is what to learn, and whether to retry. Its zero value, with the
	// Verdict [pace.Ignored], teaches nothing and is not retried: a success has
	// the Verdict [pace.Served].
	Report pace.Report
	// Scopes are what the answer said of single scopes: limits that only some
	// calls are subject to, see [CallOptions.Needs]. They may be said of any answer, a
	// success too. Where one of them refused, the Throttle's own limit did not, and
	// is not slowed down. A retry is subject to all of them, and rests as long as
	// any of them asks for. Of scopes that the call did not name, at most 16 count,
	// in all its tries together.
	Scopes []ScopeResult
	// Err is the error of the try. If nil, it had none.
	Err error
}

// ScopeResult is what an answer said of one scope.
type ScopeResult struct {
	// Need names the scope. Its Cost estimates the retry in that scope, and counts
	// only where the call did not name the scope itself. An empty Scope is a limit
	// without a pace, such as a lock on one object: its refusal slows down no other
	// call.
	Need
	// Report is for that scope alone: one that refused is blamed, and others
	// are not. Its Cost is the actual cost in that scope.
	Report pace.Report
}

// DoResult is Do for functions that know more than an error about how a try
// ended: the hints of the server, the actual cost, the scopes that refused.
//
// It waits until the limit admits the call, runs f, and retries it while its
// Report is Throttled or Failed and not Final. Once f is Served or Ignored,
// DoResult returns its Err, which is nil for a success. Giving up is an [*Error]
// around the last Err. [Throttle.Classify] is not called: f has classified the
// try. In all else it is as [Throttle.Do]; [CallOptions.Once] makes one try only.
func (t *Throttle) DoResult(ctx context.Context, f func(context.Context) Result) error {
	return t.do(ctx, f, false)
}

// classified is the Result of a function that returned err.
func (t *Throttle) classified(err error) Result {
	classify := t.Classify
	if classify == nil {
		classify = Classify
	}
	return Result{Report: classify(err), Err: err}
}
