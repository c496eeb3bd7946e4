package throttlehttp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// splits remember which scopes requests are subject to, as the answers of the
// servers have shown, for each route under a name of the Transport: a route
// gets a scope of its own where a server names one, and routes for which it
// names the same share it.
//
// It remembers at least keptRoutes, and at most twice as many; it learns the
// others again.
type splits struct {
	mu          sync.Mutex
	now, before map[string][]throttle.Need
	closed      map[string]time.Time // until when the server refuses a scope, as it said last
	salt        [16]byte             // zero: none yet
}

const (
	keptRoutes = 5000 // remembered at least
	maxNeeds   = 8    // of one route
)

// of returns what was learnt of a key: a name, or a name and a route.
func (s *splits) of(key string) []throttle.Need {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.now[key]; ok {
		return n
	}
	n, ok := s.before[key]
	if ok {
		s.keep(key, n)
	}
	return n
}

// learn records that the requests of a route are subject to n. If n is known,
// its cost is replaced; scopes whose names begin with replaces are removed.
func (s *splits) learn(key string, n throttle.Need, replaces string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.now[key]
	if !ok {
		old = s.before[key]
	}
	if slices.Contains(old, n) {
		return
	}
	needs := slices.DeleteFunc(slices.Clone(old), func(x throttle.Need) bool {
		return x.Scope == n.Scope || replaces != "" && strings.HasPrefix(x.Scope, replaces)
	})
	if len(needs) < maxNeeds {
		needs = append(needs, n)
	}
	s.keep(key, needs)
}

// keep remembers n. Caller holds mu.
func (s *splits) keep(key string, n []throttle.Need) {
	if len(s.now) >= keptRoutes {
		s.now, s.before = nil, s.now
	}
	if s.now == nil {
		s.now = make(map[string][]throttle.Need)
	}
	s.now[key] = n
}

// close records until when the server refuses scopes, as it said now. Of more than
// keptRoutes it forgets the others.
func (s *splits) close(now time.Time, scopes []throttle.ScopeResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range scopes {
		if x.Report.Verdict != pace.Throttled || x.Report.After <= 0 {
			continue
		}
		if s.closed == nil || len(s.closed) >= keptRoutes {
			s.closed = make(map[string]time.Time)
		}
		s.closed[x.Scope] = now.Add(x.Report.After)
	}
}

// refuses reports whether the server refuses a scope now.
func (s *splits) refuses(now time.Time, scope string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.closed[scope])
}

// hash returns a name for a secret that tells nothing of it.
func (s *splits) hash(secret string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.salt == [16]byte{} {
		rand.Read(s.salt[:])
	}
	sum := sha256.Sum256(append(s.salt[:], secret...))
	return hex.EncodeToString(sum[:6])
}

// The kinds of scopes, as their names begin after the name of the Transport.
const (
	partOfRoute = "/"
	partOfUser  = "@"
	partOfUnit  = "#"
)

// options returns the context of the request with all scopes that it is subject
// to: those asked for, and those learnt from earlier answers.
func (c *call) options(ctx context.Context, asked []throttle.Need) context.Context {
	opts := throttle.OptionsOf(ctx)
	c.needs = append(slices.Clip(opts.Needs), asked...)
	c.learnt()
	if len(c.needs) == len(opts.Needs) {
		return ctx
	}
	opts.Needs = c.needs
	return throttle.WithOptions(ctx, opts)
}

// learnt adds to the needs what earlier answers have shown.
func (c *call) learnt() {
	if c.told = c.splits.of(c.name) != nil; !c.told {
		return
	}
	learnt := slices.Clone(c.splits.of(c.name + c.routeOf()))
	if user := c.userOf(); user != "" {
		learnt = append(learnt, c.splits.of(c.name+user)...)
	}
	for _, n := range learnt {
		if strings.HasPrefix(n.Scope, c.name+partOfRoute) {
			n.Scope += c.idOf()
		}
		if !slices.ContainsFunc(c.needs, func(x throttle.Need) bool { return x.Scope == n.Scope }) {
			c.needs = append(slices.Clip(c.needs), n)
		}
	}
}

// heard reads what an answer says of single limits; a retry, and later requests
// like this one, are subject to them too. own is what it says of the Throttle's
// own limit.
func (c *call) heard(r signal.Reading, report pace.Report) (own pace.Report, scopes []throttle.ScopeResult) {
	own = report
	if report.Verdict == pace.Throttled {
		c.learnt() // from answers to other requests meanwhile: the retry is subject to that too
	}
	name, replaces := c.about(r)
	if name != "" {
		n := throttle.Need{Scope: name}
		scopes = append(scopes, throttle.ScopeResult{Need: n, Report: report})
		own.Hints = pace.Hints{}
		c.learn(n, replaces)
	}
	counted := len(scopes) > 0
	for i := range r.Policies {
		counted = counted || r.Policies[i].CountsRequests() && usedUp(r.Policies[i])
	}
	for i, p := range r.Policies {
		if p.CountsRequests() || p.Unit == inFlight {
			continue
		}
		n, known := c.needOf(p, r.Policies)
		cost := pace.Opt[int64]{}
		if i == 0 {
			cost = r.Cost
		}
		if cost.OK && cost.V > 0 && !known {
			n.Cost, known = cost.V, true
			if p.Limit.OK { // beyond it no request would ever pass
				n.Cost = min(n.Cost, max(p.Limit.V, 1))
			}
			c.learn(n, "")
		}
		refused := report.Verdict == pace.Throttled && usedUp(p)
		switch {
		case known:
			mine := p.Report(report)
			mine.Cost = cost.V
			if report.Verdict == pace.Throttled && !counted && p.Remaining.OK && p.Remaining.V-n.Cost/4 < n.Cost {
				mine.Verdict, mine.After = report.Verdict, report.After // too little is left for this one, as its cost is an estimate
			}
			scopes = append(scopes, throttle.ScopeResult{Need: n, Report: mine})
		case refused && !counted:
			// What a request costs is not known, so neither is what is left.
			scopes = append(scopes, throttle.ScopeResult{Need: n, Report: pace.Report{Verdict: report.Verdict, After: report.After}})
			c.learn(n, "")
		}
	}
	return own, scopes
}

// inFlight is the unit of a concurrency limit. Its refusals are Crowded: they bound the
// requests in flight, and no rate of a scope.
const inFlight = "concurrent-requests"

func usedUp(p signal.Policy) bool { return p.Remaining.OK && p.Remaining.V <= 0 }

// needOf returns the scope of a policy, one of all in an answer; known reports whether the
// request has stated its cost there. A cost that is stated for a unit, such as tokens, is for
// all policies of that unit, unless one of them has its name: then it is for that one alone.
func (c *call) needOf(p signal.Policy, all []signal.Policy) (n throttle.Need, known bool) {
	name := c.name + partOfUnit + p.Unit
	if p.Name != "" {
		name = c.name + partOfUnit + p.Name
	}
	for _, x := range c.needs {
		if x.Scope == p.Name || x.Scope == name {
			return x, x.Cost > 0
		}
	}
	if slices.ContainsFunc(all, func(other signal.Policy) bool { return other.Name == p.Unit }) {
		return throttle.Need{Scope: name}, false
	}
	for _, x := range c.needs {
		if x.Scope == p.Unit {
			return x, x.Cost > 0
		}
	}
	return throttle.Need{Scope: name}, false
}

// about returns the scope that an answer is about, empty for the Throttle's own
// limit; replaces is how the names begin of scopes that it supersedes.
func (c *call) about(r signal.Reading) (name, replaces string) {
	switch r.Scope {
	case signal.ScopeRoute, signal.ScopeResource, signal.ScopeShared:
		part := r.ScopeName
		switch {
		case part == "" && r.Scope == signal.ScopeShared:
			return "", ""
		case part == "":
			part = strings.TrimPrefix(c.routeOf(), "\x00")
		}
		begin := c.name + partOfRoute
		return begin + part + c.idOf(), begin
	case signal.ScopeUser:
		if user := c.userOf(); user != "" {
			return c.name + user, ""
		}
	case signal.ScopeUnknown:
		for _, p := range r.Policies {
			if p.CountsRequests() && p.Partition != "" && p.Remaining == r.Remaining { // it is the one that binds
				begin := c.name + "/" + p.Name + " "
				return begin + c.splits.hash(p.Partition), begin
			}
		}
		if !c.told {
			return "", "" // at once, as nearly all servers never tell
		}
		if user := c.userOf(); user != "" && c.splits.of(c.name+user) != nil {
			return c.name + user, "" // what is limited by user, is so at all times
		}
	}
	return "", ""
}

// learn records that requests like this one are subject to n.
func (c *call) learn(n throttle.Need, replaces string) {
	key := c.name + c.routeOf()
	if user := c.userOf(); user != "" && strings.HasPrefix(n.Scope, c.name+user) {
		key = c.name + user
	}
	if begin := c.name + partOfRoute; strings.HasPrefix(n.Scope, begin) {
		n.Scope = strings.TrimSuffix(n.Scope, c.idOf()) // the route is the same for all of them
	}
	c.told = true
	c.splits.learn(c.name, throttle.Need{}, "")
	c.splits.learn(key, n, replaces)
}

// userOf returns the part of the name of a scope that stands for the
// credentials of the request; empty if it has none, or such as are made for
// this request alone: signatures (AWS, OAuth 1, Digest, RFC 9421), which are
// lists of parameters.
func (c *call) userOf() string {
	for _, name := range [...]string{"Authorization", "X-Api-Key", "Api-Key", "X-Auth-Token", "Private-Token"} {
		if v := c.req.Header.Get(name); v != "" && !strings.Contains(v, ",") {
			if c.user == "" {
				c.user = partOfUser + c.splits.hash(name+"\x00"+v)
			}
			return c.user
		}
	}
	return ""
}

// routeOf returns the method and path of the request, with a star for what
// looks like an id.
func (c *call) routeOf() string {
	if c.route == "" {
		c.route = "\x00" + routeOf(c.req)
	}
	return c.route
}

const longestRoute = 200 // bytes

func routeOf(req *http.Request) string {
	method := req.Method
	if method == "" {
		method = "GET"
	}
	if req.URL == nil {
		return method
	}
	path := req.URL.Path
	if len(path) > longestRoute {
		path = path[:longestRoute]
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if isID(p) {
			parts[i] = "*"
		}
	}
	return method + " " + strings.Join(parts, "/")
}

// idOf returns the ending of the names of scopes that the server has once for each
// object.
func (c *call) idOf() string {
	if id := firstID(c.req); id != "" && c.dialect.Splits() {
		return " " + id
	}
	return ""
}

// firstID returns the first part of the path that looks like an id.
func firstID(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	for p := range strings.SplitSeq(req.URL.Path, "/") {
		if isID(p) {
			return p
		}
	}
	return ""
}

// isID reports whether a part of a path names one of many: it is a number, or
// long, with digits in it or with capitals as no word has them.
func isID(part string) bool {
	digits, upper, lower := 0, 0, 0
	for i := range len(part) {
		switch c := part[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'A' <= c && c <= 'Z':
			upper++
		case 'a' <= c && c <= 'z':
			lower++
		}
	}
	mixed := len(part) >= 16 && upper >= len(part)/4 && lower >= len(part)/8
	return mixed || digits > 0 && (digits == len(part) || len(part) >= 8 && digits >= 2)
}
