package rules

import (
	"encoding/json"
	"strings"

	"github.com/throttle-go/throttle/load"
)

// Set is who is limited by what, as written in a file. It is data: [Compile]
// makes it ready for use. Every field that has a list takes, in JSON, a single
// value as well.
type Set struct {
	// Version names this version, for logs and metrics: at most 64 letters,
	// digits, '-', '_' and '.'. If empty, the beginning of a digest of the Set.
	Version string `json:"version,omitempty"`
	// Proxies are those whose word about the client's address is taken. If
	// zero, no header field is read for it.
	Proxies Proxies `json:"proxies,omitzero"`
	// IPv6Prefix is how many bits of an IPv6 address make one client, from 32
	// to 128. If zero, 64: who has one address of a /64 has them all.
	// Link-local addresses (fe80::/10) are one client each.
	IPv6Prefix int `json:"ipv6_prefix,omitzero"`
	// IPv4Prefix is how many bits of an IPv4 address make one client, from 8 to
	// 32. If zero, 32: each address.
	IPv4Prefix int `json:"ipv4_prefix,omitzero"`
	// Deny lists who is refused whatever the rules say: addresses, networks,
	// and PART=PATTERN, PART being any part of a [Key] but the address. At most
	// 10,000, of which 100 with '*'.
	Deny []string `json:"deny,omitempty"`
	// Allow lists, in the same form, who is not limited at all. Deny wins.
	Allow []string `json:"allow,omitempty"`
	// Rules apply all at once, not the first that matches: at most 1,000. None
	// limits nobody.
	Rules []Rule `json:"rules"`
}

// Rule is one limit, or several on the same account.
type Rule struct {
	// Name is in answers, in logs and in the keys of the Store; a rule that is
	// renamed starts afresh. At most 64 letters, digits, '-', '_' and '.', and
	// no other rule's.
	Name string `json:"name"`
	// Off takes the rule out, as if it were not there.
	Off bool `json:"off,omitzero"`
	// Shadow counts as ever but refuses nothing: see [Answer.Shadow].
	Shadow bool `json:"shadow,omitzero"`
	// Phase is when the rule is asked. If empty, After.
	Phase Phase `json:"phase,omitzero"`
	// Match is which requests the rule is for. If zero, all.
	Match Match `json:"match,omitzero"`
	// Key is on whose account they go. If empty, all share one.
	Key Key `json:"key,omitempty"`
	// Missing is what happens to a request of which a part of the Key is not
	// known, or empty. If empty, Share.
	Missing Missing `json:"missing,omitzero"`
	// Cost is what a request uses up of each limit. If zero, 1.
	Cost Cost `json:"cost,omitzero"`
	// Limits must all have room; at most 8. The n-th limit of a rule has the
	// same account whatever it allows, so one that is changed carries over what
	// was used, see [limit.Change].
	Limits []Limit `json:"limits,omitempty"`
	// InFlight is how many requests of one account may be under way at a time,
	// see [Compiled.Admit]. If zero, any number.
	InFlight Max `json:"in_flight,omitzero"`
	// Overrides are other limits for some keys: at most 10,000, of which 1,000
	// are not exact, of which 100 with '*'. Of those that match, an exact one
	// wins, then the first.
	Overrides []Override `json:"overrides,omitempty"`
	// Priority is how important the requests are that the rule is for, when some
	// must be shed. If zero, the rule says nothing about it.
	Priority load.Priority `json:"priority,omitzero"`
}

// Match is which requests a rule is for: those to which all its fields apply.
// A field applies if any of its patterns does, and if it is empty. In a pattern
// '*' is any text, the empty one and slashes included; there is no other sign.
type Match struct {
	// Methods are exact, in capitals.
	Methods []string `json:"methods,omitempty"`
	// Hosts are patterns of the host without its port, whatever the case.
	Hosts []string `json:"hosts,omitempty"`
	// Paths are patterns of the path, case included, after "//", "/./" and
	// "/x/../" have been removed from it: "/api/*" is all below /api.
	Paths []string `json:"paths,omitempty"`
	// Headers are patterns of the values of header fields, all of which must
	// be there. The names are taken whatever their case.
	Headers map[string]string `json:"headers,omitempty"`
	// Client is Known, for requests with a [Request.Client], or Unknown, for
	// those without. If empty, both.
	Client Client `json:"client,omitzero"`
}

// Override is other limits for some keys of a rule.
type Override struct {
	// Key has a pattern for each part of the rule's Key: exact, or with '*'.
	// That of an address is an address or a network, or "*". A key with a
	// missing part has no override.
	Key []string `json:"key"`
	// Limits are instead of the rule's, the n-th for the n-th. If empty, the
	// rule's.
	Limits []Limit `json:"limits,omitempty"`
	// InFlight is instead of the rule's. If zero, the rule's; to allow any
	// number, write a large one.
	InFlight Max `json:"in_flight,omitzero"`
}

// Phase is when a rule is asked, or which rules a request is for, in programs
// that decide twice: before they know who asks, and after.
type Phase string

const (
	// Before is before authorisation, when only the address and what the
	// client says are known.
	Before Phase = "before"
	// After is after it.
	After Phase = "after"
)

// Client is whether it is known who asks.
type Client string

const (
	// Known is a request with a [Request.Client].
	Known Client = "known"
	// Unknown is one without.
	Unknown Client = "unknown"
)

// Missing is what happens to requests of which a part of the key is missing.
type Missing string

const (
	// Share makes an account of the parts that are there, shared by all
	// requests that lack the same parts.
	Share Missing = "share"
	// Pass does not ask the rule.
	Pass Missing = "pass"
	// Refuse refuses them.
	Refuse Missing = "refuse"
)

// Cost is what a request uses up: N, or what [Request.Cost] says.
type Cost struct {
	// N is a fixed cost. If zero, 1, unless there is a Name.
	N int64
	// Name is the one to give to [Request.Cost]. If empty, N.
	Name string
}

// MarshalJSON is a number, or the name as text.
func (c Cost) MarshalJSON() ([]byte, error) {
	if c.Name != "" {
		return json.Marshal(c.Name)
	}
	return json.Marshal(max(c.N, 1))
}

// Max is how many may be under way at a time. Zero is any number; in JSON that
// is left out.
type Max int64

// Key is the parts that make up the account of a request, at most 4:
//
//	address       Request.Address: an IPv4 address, or the /64 of an IPv6 address; see Set
//	client        Request.Client, the identity that was authenticated
//	header:NAME   a field of the header
//	host          the host without its port, in small letters
//	method        the method
//	path          the path, cleaned as for Match
//	path:N        its N-th segment, from 1
//	anything else what Request.Value says; the program must have named it
//
// In JSON it is one text, "address+header:X-Tenant", or a list of parts.
type Key []string

// MarshalJSON is one text.
func (k Key) MarshalJSON() ([]byte, error) { return json.Marshal(strings.Join(k, "+")) }

// UnmarshalJSON reads a Set, as [Parse] does, but does not check what it says.
func (s *Set) UnmarshalJSON(data []byte) error {
	read, _, err := readSet(data)
	if err != nil {
		return err
	}
	*s = read
	return nil
}

// MarshalJSON is the form that Parse reads.
func (s Set) MarshalJSON() ([]byte, error) {
	type plain Set
	if s.Rules == nil {
		s.Rules = []Rule{}
	}
	return json.Marshal(plain(s))
}
