package throttle

import (
	"context"

	"github.com/throttle-go/throttle/pace"
)

// Result states how one try of a call ended: what to learn from it, and its
// error. The zero Result teaches nothing and has no error. See
// [Throttle.DoResult].
type Result struct {
	// Report states what to learn, and whether to retry. Its zero value, with
	// the Verdict [pace.Ignored], teaches nothing and is not retried: a success
	// has the Verdict [pace.Served].
	Report pace.Report
	// Scopes state what the answer said of single scopes: limits that only some
	// calls are subject to, see [CallOptions.Needs]. Any answer may have them,
	// a success too. Where one of them refused, the Throttle's own limit did
	// not, and is not slowed down. A retry is subject to all of them, and waits
	// as long as each of them asks for. Of scopes that the call did not name,
	// at most 16 count, in all its tries together.
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

// DoResult is Do for functions that know more than an error about how a try
// ended: the hints of the server, the actual cost, the scopes that refused.
//
// It waits until the limit admits the call, runs f, and retries it while its
// Report is Throttled or Failed and not Final. Once f is Served or Ignored,
// DoResult returns its Err, nil for a success. When it gives up, it returns an
// [*Error] around the last Err. [Throttle.Classify] is not called: f classifies
// the try. In all else it is as [Throttle.Do]; with [CallOptions.Once] it makes
// one try only.
func (t *Throttle) DoResult(ctx context.Context, f func(context.Context) Result) error {
	return t.do(ctx, f, false)
}

// classified returns the Result of a function that returned err.
func (t *Throttle) classified(err error) Result {
	classify := t.Classify
	if classify == nil {
		classify = Classify
	}
	return Result{Report: classify(err), Err: err}
}
