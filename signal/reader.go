package signal

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// reader reads one answer.
type reader struct {
	Reading
	d      *Dialect
	status int
	field  func(name string) string
	whole  []byte    // body, of which a problem document is read whatever the dialect
	body   []byte    // the same, if the dialect reads it; else nil
	now    time.Time // by the server's clock once dated
	dated  bool
	notes  *[]Note // what was read, for Explain; else nil

	policies   int    // found
	one        Policy // the first
	binds      bool   // Signal holds a policy
	limitScope Scope  // what the limits are about
	limitName  string
	verdictBy  string
	finalBy    string // what said that it is permanent
	limitsBy   string
	none       bool                    // nothing remains of some policy
	spent      bool                    // of one that counts requests
	full       bool                    // of one of requests in flight
	refill     pace.Opt[time.Duration] // the longest reset of those
	refillBy   string
	guessed    pace.Opt[time.Duration] // the longest reset of those that do not say what remains
	guessedBy  string
	judged     bool          // a rule gave the verdict
	sentenced  bool          // a rule said whether it is permanent
	due        time.Duration // what a rule says to wait
}

// read reads everything, and then makes up its mind.
func (r *reader) read() {
	r.whole = r.whole[:min(len(r.whole), MaxBody)]
	if r.d.WantsBody(r.status) {
		r.body = r.whole
	}
	r.Verdict = r.verdictOf()
	r.readWaits()
	if age := count(r.field("Age")); age.V > 0 {
		r.After.V = max(r.After.V-time.Duration(min(age.V, int64(MaxAfter/time.Second)))*time.Second, 0)
		if r.notes != nil {
			r.note("Age", "out of a cache: limits are of the past and are ignored")
		}
	} else {
		r.readLimits()
	}
	for i := range r.d.spec.Rules {
		r.apply(&r.d.spec.Rules[i])
	}
	r.readRetry()
	r.readPart()
	r.readProblem()
	r.settle()
	if r.policies == 1 && (!r.one.CountsRequests() || r.one.Partition != "") {
		r.Policies = []Policy{r.one}
	}
}

// readPart makes a refusal with status 200 final if part of the request was
// executed: GraphQL may run one mutation of several.
func (r *reader) readPart() {
	if r.status >= 400 || r.Verdict != pace.Throttled || r.Permanent || !jsonText(r.body).hasData() {
		return
	}
	r.Permanent, r.finalBy = true, "body data"
	if r.notes != nil {
		r.noteText("body data", "…", "part of it was executed: do not ask again")
	}
}

// readProblem makes a refusal final if its problem document (RFC 9457) says that no
// retry helps, as of a request that costs more than the limit ever allows. Of that
// request no pace is slow enough.
func (r *reader) readProblem() {
	if r.Verdict != pace.Throttled || r.Permanent || len(r.whole) == 0 || !isProblem(r.field("Content-Type")) {
		return
	}
	var p struct {
		Retryable *bool `json:"retryable"`
	}
	if json.Unmarshal(r.whole, &p) != nil || p.Retryable == nil || *p.Retryable {
		return
	}
	r.Verdict, r.Permanent, r.finalBy = pace.Served, true, "body retryable"
	if r.notes != nil {
		r.noteText("body retryable", "false", "no wait helps: do not ask again")
	}
}

// isProblem reports whether a Content-Type is that of a problem document.
func isProblem(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/problem+json")
}

// verdictOf is what the status alone means.
func (r *reader) verdictOf() pace.Verdict {
	throttles := r.status == 429 || r.status == 503
	if r.d.spec.Throttles != nil {
		throttles = has(r.d.spec.Throttles, r.status)
	}
	switch {
	case throttles:
		r.verdictBy = "status"
		return pace.Throttled
	case r.status < 500:
		return pace.Served
	}
	r.verdictBy = "status"
	return pace.Failed
}

// has is slices.Contains of integers, without its call.
func has(all []int, n int) bool {
	for _, x := range all {
		if x == n {
			return true
		}
	}
	return false
}

// text is what stands at a place: a field, or a path into the body.
func (r *reader) text(from string) string {
	if path, ok := strings.CutPrefix(from, "body "); ok {
		return lookup(r.body, path)
	}
	return strings.Trim(r.field(from), " \t")
}

// byNginx stands in the page of a 503 that nginx itself gives, as limit_req and limit_conn
// do: where no upstream answers it is a 502. The load balancers of AWS give the same page but
// for its last line, where they have no target.
var byNginx = []byte("<h1>503 Service Temporarily Unavailable</h1></center>\r\n<hr><center>")

// clock is the time by the server's clock, if it stated it.
func (r *reader) clock() time.Time {
	if !r.dated {
		r.dated = true
		if t, ok := date(r.field("Date")); ok {
			r.now = t
		}
	}
	return r.now
}

// standardWaits is where most say how long to wait.
var standardWaits = []wait{{"Retry-After", "after"}}

// readWaits reads the first wait that can be read.
func (r *reader) readWaits() {
	waits := r.d.spec.Waits
	if waits == nil {
		waits = standardWaits
	}
	for _, w := range waits {
		if r.status < 400 && w.Is != "after" && w.Is != "pushback" && w.Is != "details" {
			continue // only Retry-After has a meaning there: 202, 301; gRPC is 200 always
		}
		text := r.text(w.From)
		if text == "" {
			continue
		}
		if r.After.OK {
			if r.notes != nil {
				r.ignore(w.From, text, "%s comes first", r.By)
			}
			continue
		}
		r.After = r.await(text, w.Is)
		if r.After.OK {
			r.Asked, r.By = true, w.From
		}
		if r.notes != nil {
			r.noteSpan(w.From, text, w.Is, "wait", r.After)
		}
		if r.After.OK && r.notes == nil {
			return
		}
	}
}

// readLimits reads what the preset and the drafts know of. Where the preset does not
// read the drafts, they count if its own fields say nothing: its vendor may have
// adopted them since.
func (r *reader) readLimits() {
	var policies []member
	if r.d.spec.Drafts {
		policies = r.readPolicies()
		found := r.readDrafts(policies)
		if found {
			r.limitScope = scopeNamed(r.d.spec.Scope)
		}
		if found && r.d.spec.First {
			return
		}
	}
	found := false
	for i := range r.d.spec.Limits {
		switch l := &r.d.spec.Limits[i]; {
		case found && r.d.spec.First && !l.Beside:
		case r.readLimit(l, policies):
			found = true
		}
	}
	if found && r.d.spec.First {
		return
	}
	if r.policies == 0 && !r.d.spec.Drafts {
		policies = r.readPolicies()
		r.readDrafts(policies)
	}
	if r.policies == 0 && len(policies) == 1 {
		p := Policy{Name: cut(policies[0].value), Unit: unitOf(policies[0]), Partition: cut(policies[0].param("pk"))}
		if p.Limit, p.Window = quota(policies[0]); p.Limit.OK {
			p.Burst = count(policies[0].param(burstParam))
			r.add(p, "RateLimit-Policy")
		}
	}
}

// add takes in a policy, and reports whether it binds more than those before.
func (r *reader) add(p Policy, by string) (binds bool) {
	if r.policies == maxPolicies {
		return false
	}
	r.policies++
	if r.policies == 1 {
		r.one, r.limitsBy = p, by
	} else {
		if r.policies == 2 {
			r.Policies = append(make([]Policy, 0, 4), r.one)
		}
		r.Policies = append(r.Policies, p)
	}
	switch {
	case p.isEmpty():
		r.none, r.spent, r.full = true, r.spent || p.CountsRequests(), r.full || p.Unit == inFlight
		r.exhausted(or(p.Reset, p.patience()), by)
	case p.Reset.OK && !p.Remaining.OK && (!r.guessed.OK || p.Reset.V > r.guessed.V):
		r.guessed, r.guessedBy = p.Reset, by
	}
	return p.CountsRequests() && r.bind(p)
}

// patience is when to ask again about a limit that is used up and does not say
// when it resets, as a part of its window; none for windows up to an hour, which
// the caller's own backoff fits.
func (p *Policy) patience() pace.Opt[time.Duration] {
	if p.Window.V <= time.Hour {
		return pace.Opt[time.Duration]{}
	}
	return pace.Some(min(p.Window.V/24, FallbackAfter))
}

// exhausted notes that nothing is left until a reset.
func (r *reader) exhausted(reset pace.Opt[time.Duration], by string) {
	if reset.OK && (!r.refill.OK || reset.V > r.refill.V) {
		r.refill, r.refillBy = reset, by
	}
}

// bind makes p the policy of the Signal if it binds more than the present one:
// the least remaining, and among equals the one that resets last. Where two
// fields tell of the same limit, each fills in what the other left out.
func (r *reader) bind(p Policy) bool {
	switch {
	case !r.binds:
	case r.restates(p):
		p.Limit, p.Window, p.Burst = or(p.Limit, r.Limit), or(p.Window, r.Window), or(p.Burst, r.Burst)
		if !p.Reset.OK || r.Reset.OK && r.Reset.V > p.Reset.V {
			p.Reset = r.Reset
		}
	case !p.Remaining.OK, r.Remaining.OK && r.Remaining.V < p.Remaining.V:
		return false
	case p.Remaining == r.Remaining && p.Reset.V <= r.Reset.V:
		return false
	}
	r.binds = true
	r.Limit, r.Remaining, r.Window, r.Reset = p.Limit, p.Remaining, p.Window, p.Reset
	r.Burst = p.Burst
	return true
}

// restates reports whether p may be the policy of the Signal, told again.
func (r *reader) restates(p Policy) bool {
	return r.binds && p.Remaining == r.Remaining && agree(p.Limit, r.Limit) && agree(p.Window, r.Window)
}

// agree reports whether a and b may be the same, as far as both are stated.
func agree[T comparable](a, b pace.Opt[T]) bool { return a == b || !a.OK || !b.OK }

func or[T any](a, b pace.Opt[T]) pace.Opt[T] {
	if a.OK {
		return a
	}
	return b
}

// settle decides on the wait, the scope and what the refusal is for, and names
// what decided.
func (r *reader) settle() {
	if r.full && !r.spent && r.Verdict == pace.Throttled && !r.Concurrency {
		r.Concurrency = true
		if r.notes != nil {
			r.noteText(r.limitsBy, inFlight, "too much in flight")
		}
	}
	if r.Scope == ScopeUnknown {
		r.Scope = r.limitScope
		if r.ScopeName == "" {
			r.ScopeName = r.limitName
		}
	}
	switch {
	case r.Verdict == pace.Throttled:
		r.settleWait()
	case r.Permanent:
		if r.notes != nil && r.After.OK {
			r.ignore(r.By, r.text(r.By), "no wait helps")
		}
		r.After, r.Asked = pace.Opt[time.Duration]{}, false
	}
	r.Unsure = r.status == 503 && r.Verdict == pace.Throttled && r.verdictBy == "status" &&
		!r.After.OK && !r.none && !r.Concurrency && !r.d.spec.Plain && !bytes.Contains(r.whole, byNginx)
	switch {
	case r.After.OK:
	case r.Permanent:
		r.By = r.finalBy
	case r.verdictBy != "":
		r.By = r.verdictBy
	default:
		r.By = r.limitsBy
	}
}

// resetAfter makes the wait the reset of a limit that is used up, as it comes
// first.
func (r *reader) resetAfter() {
	if r.Reset.OK && (!r.Remaining.OK || r.Remaining.V == 0) {
		r.Reset = r.After
	}
}

// settleWait finds the wait of a refusal that has none yet.
func (r *reader) settleWait() {
	if r.After.OK {
		r.resetAfter()
		return
	}
	if !r.none && !r.refill.OK {
		r.refill, r.refillBy = r.guessed, r.guessedBy
	}
	switch {
	case r.refill.OK:
		r.After, r.By = r.refill, r.refillBy
		if r.After.V >= MaxAfter {
			r.After.V = FallbackAfter
			r.resetAfter()
		}
	case r.due > 0:
		r.After, r.By = pace.Some(r.due), "default"
		if r.notes != nil {
			r.note("default", "wait %v, as the vendor documents for an answer that names no wait", r.After.V)
		}
	}
}
