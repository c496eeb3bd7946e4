// Package rules states which requests are subject to which limits: which
// requests a rule is for, by which key they are counted, and how much each key
// may use. Rules are Go values with a JSON form, and can be swapped while the
// program runs.
//
//	c, err := rules.Parse([]byte(`{"rules": [
//		{"name": "per-address", "key": "address", "limits": "10/s burst 20"}
//	]}`))
//	a, err := c.Decide(ctx, s, rules.Request{Path: "/", Address: from})
//	if !a.OK { /* a.Rule refuses; come again after a.Decision.RetryAfter */ }
//
// A [Set] is the content of a file. [Parse] and [Compile] check it as a whole,
// and [Compiled.Decide] asks a [store.Store] about all rules for a request at
// once: all are charged, or none. [Live] holds the version in use, and a
// [Source] refreshes it from a URL, a file or a function. A [Stack] puts several
// sources on top of each other, and on top of them an [Overlay]: changes by hand,
// such as a raise for an hour, that all instances share. [ParseNode] reads other
// formats than JSON.
//
// Most owners do not call Decide themselves: they give a Live to
// throttlehttp.Handler, which fills in the Request. A program with a single
// limit needs no rules, only package store.
//
// This package keeps no state for keys; the Store does.
package rules

import (
	"encoding/json"
	"strings"

	"github.com/throttle-go/throttle/load"
)

// Set states which requests are subject to which limits, as written in a file.
// It is data: [Compile] prepares it for use. In JSON, each field with a list
// accepts a single value as well.
type Set struct {
	// Version names this version, for logs and metrics: at most 64 letters,
	// digits, '-', '_' and '.'. If empty, the beginning of a digest of the Set.
	Version string `json:"version,omitempty"`
	// Serial numbers the versions of a source, which must not go back: a Source
	// refuses a Set whose Serial is below that of the one in use. If zero, any
	// version will do.
	Serial int64 `json:"serial,omitzero"`
	// Kill switches limiting off: requests are counted as usual, and nothing is
	// refused, see [Killed].
	Kill Kill `json:"kill,omitzero"`
	// Proxies are the proxies that are trusted to state the client's address.
	// If zero, no header field is read for it.
	Proxies Proxies `json:"proxies,omitzero"`
	// IPv6Prefix is the number of bits of an IPv6 address that identify a
	// client, from 32 to 128. If zero, 64, as one client usually has all of a
	// /64. Link-local addresses (fe80::/10) are one client each.
	IPv6Prefix int `json:"ipv6_prefix,omitzero"`
	// IPv4Prefix is the number of bits of an IPv4 address that identify a
	// client, from 8 to 32. If zero, 32: each address.
	IPv4Prefix int `json:"ipv4_prefix,omitzero"`
	// Deny lists clients that are refused whatever the rules say: at most
	// 10,000, and at most 100 of them with '*'.
	Deny []Entry `json:"deny,omitempty"`
	// Allow lists, in the same form, clients that are not limited. Deny wins.
	Allow []Entry `json:"allow,omitempty"`
	// Rules apply all at once, not the first that matches: at most 1,000. If
	// empty, no request is limited.
	Rules []Rule `json:"rules"`
	// Switches are values for the program, by name and key: at most 1,000. They
	// limit nothing by themselves.
	Switches []Switch `json:"switches,omitempty"`
}

// Rule is one limit, or several limits by the same key, for the requests that it
// matches.
type Rule struct {
	// Name appears in answers, in logs and in the keys of the Store; a renamed
	// rule starts with unused limits. At most 64 letters, digits, '-', '_' and
	// '.', and no other rule's.
	Name string `json:"name"`
	// Off disables the rule, as if it were not there.
	Off bool `json:"off,omitzero"`
	// Shadow makes the rule count as usual but refuse nothing (dry run), or tries
	// out other limits beside its own: see [Answer.Shadow].
	Shadow Shadow `json:"shadow,omitzero"`
	// Phase is the phase in which the rule is asked. If empty, After.
	Phase Phase `json:"phase,omitzero"`
	// Match selects the requests that the rule is for. If zero, all.
	Match Match `json:"match,omitzero"`
	// Key is the key by which requests are counted. If empty, all share one.
	Key Key `json:"key,omitempty"`
	// Missing chooses what happens to a request that lacks a part of the Key.
	// If empty, Share.
	Missing Choice `json:"missing,omitzero"`
	// Away chooses what counts when the Store cannot decide, see [store.Guard]:
	// Share (its FallbackLocal), Pass (FallbackAllow) or Refuse (FallbackDeny).
	// If empty, the Fallback of the Guard. Without a Guard, requests whose rules
	// all say Pass are admitted, and the error of the Store counts for others.
	Away Choice `json:"away,omitzero"`
	// Cost is the number of tokens that a request takes of each limit. If zero,
	// 1; for a descriptor, [HitsAddend].
	Cost Cost `json:"cost,omitzero"`
	// Debt charges all of a Cost that has a Name, even if it does not fit: for costs that
	// are known only afterwards. What costs something passes, and what costs nothing is
	// refused while the key owes something, see [limit.Ask.Debt].
	Debt bool `json:"debt,omitzero"`
	// Limits must all have room; at most 8. If empty, there must be an InFlight or
	// a Priority. The n-th limit of a rule has the
	// same key in the Store whatever it allows, so a changed limit carries over
	// what was used, see [limit.Change].
	Limits []Limit `json:"limits,omitempty"`
	// InFlight bounds the requests in flight for each key, see
	// [Compiled.Admit]. If zero, there is no bound.
	InFlight Max `json:"in_flight,omitzero"`
	// Overrides are other limits for some keys: at most 10,000, at most 1,000 of
	// them not exact, and at most 100 with '*'. Of those that match, an exact
	// one wins, then the first.
	Overrides []Override `json:"overrides,omitempty"`
	// Lookup calls [Request.Override] for keys that have no override here.
	Lookup bool `json:"lookup,omitzero"`
	// Priority is the priority of the requests that the rule is for, when some
	// must be shed. If zero, the rule sets none.
	Priority load.Priority `json:"priority,omitzero"`
}

// Match selects requests: those to which all its fields apply. A field applies
// if it is empty or one of its patterns matches. In a pattern '*' is any text,
// including none and slashes; no other character is special.
type Match struct {
	// Methods are exact, in capitals.
	Methods []string `json:"methods,omitempty"`
	// Hosts are patterns of the host without its port, in any case.
	Hosts []string `json:"hosts,omitempty"`
	// Paths are patterns of the path, case-sensitive, after "//", "/./" and
	// "/x/../" have been removed from it: "/api/*" is all below /api.
	Paths []string `json:"paths,omitempty"`
	// Headers are patterns of the values of header fields, all of which must be
	// present and not empty. The names may be in any case.
	Headers map[string]string `json:"headers,omitempty"`
	// Client is Known, for requests with a [Request.Client], or Unknown, for
	// those without. If empty, both.
	Client Client `json:"client,omitzero"`
	// Domains are patterns of [Request.Domain]. A rule with Domains or a
	// Descriptor is asked about descriptors only, and no other rule is. It has
	// none of the fields above.
	Domains []string `json:"domains,omitempty"`
	// Descriptor matches the entries of a descriptor: all of them, in their
	// order; at most 100. If empty, any.
	Descriptor []PairPattern `json:"descriptor,omitempty"`
}

// Override replaces the limits of a rule for some keys.
type Override struct {
	// Key has a pattern for each part of the rule's Key: exact, or with '*'.
	// That of an address is an address or a network, or "*". A key that lacks a
	// part has no override.
	Key []string `json:"key,omitempty"`
	// Limits replace the rule's, the n-th for the n-th. If empty, the rule's
	// apply.
	Limits []Limit `json:"limits,omitempty"`
	// InFlight replaces the rule's. If zero, the rule's applies; to remove the
	// bound, write a large number.
	InFlight Max `json:"in_flight,omitzero"`
	// Note ends the Override by itself: then the next that matches counts.
	Note
}

// Phase says when a rule is asked, or which rules a request is subject to, in
// programs that decide twice: before and after the caller is authenticated.
type Phase string

const (
	// Before is before authentication, when only the address and what the client
	// says are known.
	Before Phase = "before"
	// After is after authentication.
	After Phase = "after"
)

// Client says whether the caller is authenticated.
type Client string

const (
	// Known is a request with a [Request.Client].
	Known Client = "known"
	// Unknown is a request without one.
	Unknown Client = "unknown"
)

// Choice is how a rule decides about requests that lack a part of its key, see
// [Rule.Missing], or that the Store cannot decide about, see [Rule.Away].
type Choice string

const (
	// Share makes a key of the parts that are present, shared by all requests
	// that lack the same parts; or, without the Store, uses the share that this
	// process has of each limit.
	Share Choice = "share"
	// Pass does not ask the rule.
	Pass Choice = "pass"
	// Refuse refuses such requests.
	Refuse Choice = "refuse"
)

// Cost is the number of tokens that a request takes: N, or the result of
// [Request.Cost].
type Cost struct {
	// N is a fixed cost. If zero, 1, unless there is a Name.
	N int64
	// Name is passed to [Request.Cost]. If empty, N.
	Name string
}

// MarshalJSON returns a number, or the name as text.
func (c Cost) MarshalJSON() ([]byte, error) {
	if c.Name != "" {
		return json.Marshal(c.Name)
	}
	return json.Marshal(max(c.N, 1))
}

// Max bounds the requests in flight. Zero is no bound; in JSON it is left out.
type Max int64

// Key lists the parts of a request that make up its key, at most 4:
//
//	address       Request.Address: an IPv4 address, or the /64 of an IPv6 address; see Set
//	client        Request.Client, the authenticated identity
//	header:NAME   a field of the header
//	host          the host without its port, in small letters
//	method        the method
//	path          the path, cleaned as for Match
//	path:N        its N-th segment, from 1
//	domain        Request.Domain, of a descriptor
//	descriptor    all entries of a descriptor: KEY=VALUE,KEY=VALUE
//	entry:KEY     the value of its first entry with the key
//	anything else what Request.Value returns; the program must have named it
//
// In JSON it is one text, "address+header:X-Tenant", or a list of parts.
type Key []string

// MarshalJSON returns one text.
func (k Key) MarshalJSON() ([]byte, error) { return json.Marshal(strings.Join(k, "+")) }

// UnmarshalJSON reads a Set, as [Parse] does, but does not check its content.
func (s *Set) UnmarshalJSON(data []byte) error {
	root, err := ReadNode(data)
	if err != nil {
		return err
	}
	var read Set
	if err := root.Decode(&read); err != nil {
		return err
	}
	*s = read
	return nil
}

// MarshalJSON returns the form that Parse reads.
func (s Set) MarshalJSON() ([]byte, error) {
	type plain Set
	if s.Rules == nil {
		s.Rules = []Rule{}
	}
	return json.Marshal(plain(s))
}
