package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// keyState is GET /api/v1/key: one key of a rule.
type keyState struct {
	Rule string `json:"rule"`
	// Key has the value of each part, or is left out where keys are hidden.
	Key    []string   `json:"key,omitempty"`
	Limits []keyLimit `json:"limits"`
	// Override says where the limits are not the rule's own.
	Override bool `json:"override"`
}

// keyLimit is what one limit has left for a key.
type keyLimit struct {
	Limit string `json:"limit"`
	KeyID string `json:"key_id"` // what logs call the key
	Max   int64  `json:"max"`
	// Remaining is what could pass now.
	Remaining int64 `json:"remaining"`
	// RetryAfter is the seconds until one more can pass: exactly for buckets and
	// fixed windows, at most so for sliding ones. Null if that never will be.
	RetryAfter *float64 `json:"retry_after"`
	// ResetAfter is the seconds until the limit is unused.
	ResetAfter float64   `json:"reset_after"`
	Until      time.Time `json:"until"` // when it is unused, by the clock of the store
}

// key is GET /api/v1/key?rule=NAME&key=VALUE&key=VALUE: what is left in each limit.
// Nothing is charged.
func (s *server) key(w http.ResponseWriter, r *http.Request) error {
	asks, rule, err := s.asksOfOne(r.FormValue("rule"), r.Form["key"])
	if err != nil {
		return err
	}
	is := keyState{Rule: rule.Name, Limits: []keyLimit{}}
	if s.c.ShowKeys {
		is.Key = r.Form["key"]
	}
	decisions, err := s.look(r.Context(), asks)
	if err != nil {
		return err
	}
	for i, d := range decisions {
		l := keyLimit{
			Limit: asks[i].Limit.String(), KeyID: keyID(asks[i].Key), Max: d.Max, Remaining: max(d.Remaining, 0),
			RetryAfter: next(asks[i].Limit, d), ResetAfter: d.ResetAfter.Seconds(), Until: d.At.Add(d.ResetAfter).UTC(),
		}
		is.Limits = append(is.Limits, l)
		is.Override = is.Override || !slices.ContainsFunc(rule.Limits, func(own rules.Limit) bool { return limit.Limit(own) == asks[i].Limit })
	}
	reply(w, is)
	return nil
}

// next is the time in seconds until one more can pass, given a look at the limit.
func next(l limit.Limit, d limit.Decision) *float64 {
	wait := 0.0
	switch {
	case d.Max < 1:
		return nil
	case d.Remaining >= 1:
	case l.Kind == limit.TokenBucket: // what is missing but one flows in later
		wait = max(d.ResetAfter.Seconds()-float64(d.Max-1)*l.Period.Seconds()/float64(l.Count), 0)
	default:
		wait = d.ResetAfter.Seconds()
	}
	return &wait
}

// keyID is the KeyID of rules.Answer for the key of a store.
func keyID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

var errNoStore = failf(http.StatusNotFound, "there is no store")

// look asks the store without charging anything.
func (s *server) look(ctx context.Context, asks []limit.Ask) ([]limit.Decision, error) {
	if s.c.Store == nil {
		return nil, errNoStore
	}
	looks, d := slices.Clone(asks), make([]limit.Decision, len(asks))
	for i := range looks {
		looks[i].N, looks[i].Min = 0, 0
	}
	if len(looks) == 0 {
		return d, nil
	}
	if _, err := s.c.Store.Take(ctx, looks, d); err != nil {
		return nil, failf(http.StatusServiceUnavailable, "the store: %v", err)
	}
	return d, nil
}

// forgive is POST /api/v1/forgive: the limits of a key are unused again. What is in
// flight stays so.
func (s *server) forgive(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Rule string `json:"rule"`
		Key  parts  `json:"key"`
		reason
	}
	if err := receive(r, &ask); err != nil {
		return err
	}
	return s.audited(w, r, "forgive", s.target(ask.Rule, ask.Key), &ask.reason, func(ctx context.Context) (any, error) {
		asks, _, err := s.asksOfOne(ask.Rule, ask.Key)
		if err != nil {
			return nil, err
		}
		given, err := s.refund(ctx, asks)
		return map[string]any{"refunded": given}, err
	})
}

// refund gives back all that was used of each limit, debts included: a refund never
// goes beyond what was.
func (s *server) refund(ctx context.Context, asks []limit.Ask) (given []int64, err error) {
	if s.c.Store == nil {
		return nil, errNoStore
	}
	given = []int64{}
	if len(asks) == 0 {
		return given, nil
	}
	back, decisions := slices.Clone(asks), make([]limit.Decision, len(asks))
	for i := range back {
		back[i].N, back[i].Min = -math.MaxInt64, 0
	}
	if _, err := s.c.Store.Take(ctx, back, decisions); err != nil {
		return nil, failf(http.StatusServiceUnavailable, "the store: %v", err)
	}
	for _, d := range decisions {
		given = append(given, -d.N)
	}
	return given, nil
}

// asksOfOne is asksOf for what looks at one key or forgives it: it refuses a network
// whose addresses have several keys, which an override may be of.
func (s *server) asksOfOne(name string, key []string) ([]limit.Ask, rules.Rule, error) {
	asks, rule, err := s.asksOf(name, key)
	if err != nil {
		return nil, rule, err
	}
	set, err := s.set()
	if err != nil {
		return nil, rule, err
	}
	for i, part := range rule.Key {
		p, flaw := netip.ParsePrefix(key[i])
		if part != "address" || flaw != nil {
			continue
		}
		one := rules.Network(p.Addr(), cmp.Or(set.IPv4Prefix, 32), cmp.Or(set.IPv6Prefix, 64))
		if n, _ := netip.ParsePrefix(one); p.Bits() < n.Bits() || !n.IsValid() && !p.IsSingleIP() {
			return nil, rule, failf(http.StatusBadRequest, "key %.64q: the network has several keys; write one of them, as %s", key[i], one)
		}
	}
	return asks, rule, nil
}

// asksOf returns what a rule would ask about a key, whose parts have these values.
// It is package rules that makes the keys and finds the overrides: the rule is
// asked alone, about a request that has the key.
func (s *server) asksOf(name string, key []string) ([]limit.Ask, rules.Rule, error) {
	set, err := s.set()
	if err != nil {
		return nil, rules.Rule{}, err
	}
	i := slices.IndexFunc(set.Rules, func(r rules.Rule) bool { return r.Name == name })
	if i < 0 {
		return nil, rules.Rule{}, failf(http.StatusNotFound, "rule %.64q: there is none of that name; see GET /api/v1/rules", name)
	}
	rule := set.Rules[i]
	q, err := requestOf(rule.Key, key)
	if err != nil {
		return nil, rule, err
	}
	alone, match := rule, rules.Match{}
	if len(rule.Match.Domains) > 0 || len(rule.Match.Descriptor) > 0 {
		match.Domains, q.Domain = []string{"*"}, cmp.Or(q.Domain, "-")
	}
	alone.Match, alone.Phase, alone.Off, alone.Shadow, alone.InFlight, alone.Cost = match, "", false, rules.Shadow{}, 0, rules.Cost{}
	if len(rule.Limits) == 0 { // it bounds what is in flight, and would do nothing without
		alone.Limits = []rules.Limit{{}}
	}
	if alone.Missing = ""; len(rule.Key) > 0 {
		alone.Missing = rules.Refuse
	}
	c, err := rules.Compile(rules.Set{IPv4Prefix: set.IPv4Prefix, IPv6Prefix: set.IPv6Prefix, Rules: []rules.Rule{alone}}, s.c.Known...)
	if err != nil {
		return nil, rule, failf(http.StatusBadRequest, "rule %s: %v", name, err)
	}
	var asks []limit.Ask
	a, err := c.Decide(context.Background(), store.Func(func(_ context.Context, all []limit.Ask, _ []limit.Decision) (bool, error) {
		asks = slices.Clone(all)
		return true, nil
	}), q)
	switch {
	case err != nil:
		return nil, rule, failf(http.StatusInternalServerError, "rule %s: %v", name, err)
	case a.Reason == rules.NoKey:
		return nil, rule, failf(http.StatusBadRequest, "rule %s counts by %s: each part needs a value", name, strings.Join(rule.Key, "+"))
	}
	return asks, rule, nil
}

// used returns the version in use.
func (s *server) used() (c *rules.Compiled, err error) {
	if s.c.Rules != nil {
		c = s.c.Rules.Load()
	}
	if c == nil {
		return nil, failf(http.StatusNotFound, "no rules are loaded")
	}
	return c, nil
}

// set returns the rules in use. It parses all of them.
func (s *server) set() (rules.Set, error) {
	c, err := s.used()
	return c.Set(), err
}

// requestOf returns a request that has the key.
func requestOf(parts rules.Key, key []string) (q rules.Request, err error) {
	if len(parts) != len(key) {
		return q, failf(http.StatusBadRequest, "key: the rule counts by %q, so it needs %d values, not %d", strings.Join(parts, "+"), len(parts), len(key))
	}
	header, values := map[string]string{}, map[string]string{}
	var segments []string
	path := ""
	q.Now = time.Now()
	q.Header = func(name string) string { return header[name] }
	q.Value = func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	for i, part := range parts {
		kind, name, _ := strings.Cut(part, ":")
		switch value := key[i]; {
		case kind == "header":
			header[http.CanonicalHeaderKey(name)] = value
		case kind == "path" && name != "":
			if strings.Contains(value, "/") {
				return q, failf(http.StatusBadRequest, "key %.64q: must be one segment of a path, without '/'", value)
			}
			n, _ := strconv.Atoi(name) // from 1 to 32, as it was compiled
			for len(segments) < n {
				segments = append(segments, "-")
			}
			segments[n-1] = value
		case part == "path":
			path = value
		case part == "address":
			q.Address, err = addressOf(value)
		case part == "client":
			q.Client = value
		case part == "host":
			q.Host = value
		case part == "method":
			q.Method = value
		case part == "domain":
			q.Domain = value
		case part == "descriptor" || kind == "entry":
			err = addPairs(&q, kind, name, value)
		default:
			values[part] = value
		}
		if err != nil {
			return q, err
		}
	}
	q.Path = cmp.Or(path, "/"+strings.Join(segments, "/"))
	return q, err
}

// addPairs adds the entries of a descriptor: all of them, or the one with a key.
func addPairs(q *rules.Request, kind, name, value string) error {
	if kind == "entry" {
		if i := slices.IndexFunc(q.Descriptor, func(p rules.Pair) bool { return p.Key == name }); i < 0 || q.Descriptor[i].Value != value {
			q.Descriptor = slices.Insert(q.Descriptor, 0, rules.Pair{Key: name, Value: value})
		}
		return nil
	}
	all, err := rules.ParseDescriptor(value)
	if err != nil {
		return failf(http.StatusBadRequest, "key: %s", strings.TrimPrefix(err.Error(), "rules: "))
	}
	for _, p := range q.Descriptor {
		if i := slices.IndexFunc(all, func(o rules.Pair) bool { return o.Key == p.Key }); i < 0 || all[i].Value != p.Value {
			return failf(http.StatusBadRequest, "key %.64q: the entry %.64q has another value in it", value, p.Key)
		}
	}
	q.Descriptor = all
	return nil
}

func addressOf(text string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Addr{}, failf(http.StatusBadRequest, "key %.64q: must be an address or its network, as 192.0.2.1 or 2001:db8::/64", text)
	}
	return p.Addr(), nil
}

// target names a key in the audit log, where keys are hidden as other logs do.
func (s *server) target(rule string, key []string) string {
	if len(key) == 0 || s.c.ShowKeys {
		return fmt.Sprintf("%.64s %.256q", rule, key)
	}
	if asks, _, err := s.asksOf(rule, key); err == nil && len(asks) > 0 {
		return fmt.Sprintf("%.64s key %s", rule, keyID(asks[0].Key))
	}
	return fmt.Sprintf("%.64s", rule)
}
