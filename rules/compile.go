package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/throttle-go/throttle/internal/glob"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/store"
)

// Bounds of a Set, so that the work of a decision is bounded.
const (
	maxRules     = 1_000
	maxLimits    = 8 // of a rule
	maxParts     = 4 // of a key
	maxName      = 64
	maxProxies   = 1_000
	maxEntries   = 10_000 // of a list, or overrides of a rule
	maxPatterns  = 100    // of them with '*', each of which is tried
	maxNetworks  = 1_000  // of overrides with '*' or a network, likewise
	maxMatch     = 100    // patterns of one field of a Match
	defaultIPv6  = 64
	smallestIPv6 = 32
	smallestIPv4 = 8
)

// Compiled is a Set that was checked and prepared for use. It does not change
// and is safe for concurrent use. Nil limits no request.
type Compiled struct {
	version     string
	serial      int64
	canon       []byte // the Set in JSON
	digest      [sha256.Size]byte
	proxies     Proxies
	bits        addressBits
	parts       []part // each that is used anywhere, once
	deny, allow list
	rules       []rule // without those that are off; shadow limits are rules of their own
	plain       []int  // into rules: those for requests
	described   index  // those for descriptors
	switches    map[string]*switched
	kill        Kill
	timed       bool                      // something ends by itself, so that the time matters
	away        bool                      // a rule has an Away
	fallbacks   map[string]store.Fallback // by rule
	pool        sync.Pool
}

// rule is a Rule made ready.
type rule struct {
	name     string
	shadow   bool
	phase    Phase
	missing  Choice
	away     Choice
	lookup   bool
	debt     bool
	tried    bool // the limits are tried out beside those of a rule of the same name
	priority load.Priority
	cost     Cost
	match    matcher
	parts    []int // of the key, into Compiled.parts
	byPath   bool  // one of them is the path, or a segment of it
	terms    terms
	other    overrides
}

// terms are what one key may use.
type terms struct {
	limits []limit.Limit
	most   int64 // in flight; zero: any number
	until  time.Time
	next   *terms // those that count when these have ended; nil: the rule's
}

// matcher is a Match made ready.
type matcher struct {
	methods      []string
	hosts, paths []glob.Pattern
	headers      []headerMatch
	client       Client
	described    bool // it is for descriptors
	domains      []glob.Pattern
	pairs        []pairMatch
}

type headerMatch struct {
	part  int
	value glob.Pattern
}

// Compile checks s and prepares it for use; nothing of s is kept. known are the
// names that [Request.Value] and [Request.Cost] understand; others are refused.
// The error is an [*Error].
func Compile(s Set, known ...string) (*Compiled, error) {
	c, e := compile(s, known)
	if e != nil {
		return nil, e // not c, e: a nil *Error would not be a nil error
	}
	return c, nil
}

// compiler makes a Compiled, and keeps the first thing that is wrong.
type compiler struct {
	c     *Compiled
	known map[string]bool
	err   *Error
}

func (k *compiler) fail(path, format string, a ...any) {
	if k.err == nil {
		k.err = &Error{Path: path, What: fmt.Sprintf(format, a...)}
	}
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func compile(s Set, known []string) (*Compiled, *Error) {
	k := &compiler{c: &Compiled{version: s.Version, serial: s.Serial, fallbacks: map[string]store.Fallback{}}, known: map[string]bool{}}
	k.c.pool.New = func() any { return new(question) }
	for _, name := range known {
		if _, taken := simpleParts[name]; taken || !isName(name) {
			k.fail("", "the program names a value %.40q; it must be letters, digits, '-', '_' and '.', and not the name of a built-in part", name)
		}
		k.known[name] = true
	}
	k.top(s)
	k.c.deny = k.list("deny", s.Deny)
	k.c.allow = k.list("allow", s.Allow)
	k.c.allow.plain = true
	k.rules(s.Rules)
	k.switches(s.Switches)
	k.c.kill = s.Kill
	k.note("kill", s.Kill.Note)
	for i := range k.c.rules {
		r := &k.c.rules[i]
		if r.match.described {
			k.c.described.add(i, &r.match)
		} else {
			k.c.plain = append(k.c.plain, i)
		}
		k.c.timed = k.c.timed || r.lookup
		if r.away != "" {
			k.c.away, k.c.fallbacks[r.name] = true, fallbacks[r.away]
		}
	}
	if k.err != nil {
		return nil, k.err
	}
	canon, err := json.Marshal(s)
	if err != nil {
		return nil, &Error{What: err.Error()}
	}
	k.c.canon, k.c.digest = canon, sha256.Sum256(canon)
	if s.Version == "" {
		k.c.version = hex.EncodeToString(k.c.digest[:6])
	}
	return k.c, nil
}

var fallbacks = map[Choice]store.Fallback{
	Share: store.FallbackLocal, Pass: store.FallbackAllow, Refuse: store.FallbackDeny,
}

// top checks what is neither a list nor a rule.
func (k *compiler) top(s Set) {
	if s.Version != "" && !isName(s.Version) {
		k.fail("version", "must be letters, digits, '-', '_' and '.', at most %d", maxName)
	}
	if s.Serial < 0 {
		k.fail("serial", "must not be negative")
	}
	if path, what := s.Proxies.flaw(); what != "" {
		k.fail(strings.TrimSuffix("proxies."+path, "."), "%s", what)
	}
	k.c.proxies = Proxies{slices.Clone(s.Proxies.Trusted), s.Proxies.Header}
	k.c.bits = bitsOf(s)
	if b := k.c.bits.v6; b < smallestIPv6 || b > 128 {
		k.fail("ipv6_prefix", "must be from %d to 128", smallestIPv6)
		k.c.bits.v6 = defaultIPv6
	}
	if b := k.c.bits.v4; b < smallestIPv4 || b > 32 {
		k.fail("ipv4_prefix", "must be from %d to 32", smallestIPv4)
		k.c.bits.v4 = 32
	}
}

// part returns the index of a part, or -1 if it is none.
func (k *compiler) part(path, text string) int {
	p, what := parsePart(text, k.known)
	if what != "" {
		k.fail(path, "%s", what)
		return -1
	}
	i := slices.Index(k.c.parts, p)
	if i < 0 {
		i = len(k.c.parts)
		k.c.parts = append(k.c.parts, p)
	}
	return i
}

// glob returns a pattern, which must be neither empty nor long.
func (k *compiler) glob(path, pattern string) glob.Pattern {
	if pattern == "" || len(pattern) > maxText {
		k.fail(path, "a pattern is 1 to %d bytes; \"*\" matches all", maxText)
	}
	return glob.Of(pattern)
}

// pattern is a glob for the values of a part, which requests can have.
func (k *compiler) pattern(path string, p part, pattern string) glob.Pattern {
	switch p.kind {
	case byHost:
		return k.host(path, pattern)
	case byPath:
		return k.path(path, pattern)
	case byMethod:
		k.method(path, pattern)
	case bySegment:
		if strings.Contains(pattern, "/") {
			k.fail(path, "must be one segment of a path, without '/'")
		}
	}
	return k.glob(path, pattern)
}

// method refuses what is no method, nor a pattern of methods.
func (k *compiler) method(path, text string) {
	if !isToken(text) || text != strings.ToUpper(text) {
		k.fail(path, "must be a method in capitals, as in GET")
	}
}

// host is a glob for hosts, which are compared in small letters.
func (k *compiler) host(path, pattern string) glob.Pattern {
	if strings.ContainsAny(pattern, "/") || hostOf(pattern) != strings.ToLower(pattern) {
		k.fail(path, "must be a host without scheme, port and final dot, as in *.example.org")
	} else if strings.ContainsFunc(pattern, func(r rune) bool { return r > unicode.MaxASCII }) {
		k.fail(path, "must be a host as requests have it, in ASCII: xn--mnchen-3ya.example for münchen.example")
	}
	return k.glob(path, strings.ToLower(pattern))
}

// path is a glob for paths as they are compared.
func (k *compiler) path(path, pattern string) glob.Pattern {
	if pattern != "" && pattern[0] != '/' && pattern[0] != '*' {
		k.fail(path, "must begin with '/' or '*'")
	} else if pattern != "" && pattern[0] == '/' && pathOf(pattern) != pattern {
		k.fail(path, "paths are compared without // and dot segments; write %.60q", pathOf(pattern))
	}
	return k.glob(path, pattern)
}

func (k *compiler) list(path string, entries []Entry) (l list) {
	patterns := 0
	if len(entries) > maxEntries {
		k.fail(path, "more than %d entries", maxEntries)
	}
	for i, entry := range entries {
		at := item(path, i)
		k.note(at, entry.Note)
		name, pattern, ok := strings.Cut(entry.Text, "=")
		if !ok {
			p, what := parseNetwork(entry.Text)
			if what != "" {
				k.fail(at, "%s, or PART=PATTERN", what)
				return l
			}
			l.nets.add(p, listed{entry.Text, entry.Until})
			continue
		}
		if name == "address" {
			k.fail(at, "write an address or network without \"address=\"")
		}
		n := k.part(at, name)
		if k.err != nil {
			return l
		}
		g := k.pattern(at, k.c.parts[n], pattern)
		if !g.Exact() {
			patterns++
		}
		if patterns > maxPatterns {
			k.fail(at, "more than %d entries with '*'", maxPatterns)
		}
		if k.err != nil {
			return l
		}
		l.add(n, g, listed{entry.Text, entry.Until})
	}
	return l
}

func sortedNames(known map[string]bool) []string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Version returns the name of the version, see [Set.Version].
func (c *Compiled) Version() string {
	if c == nil {
		return ""
	}
	return c.version
}

// Set returns the Set as it was checked, a copy of its own.
func (c *Compiled) Set() Set {
	if c == nil {
		return Set{}
	}
	return filled(c.canon)
}

// Killed reports whether the kill switch is on at now, see [Set.Kill]. It takes the
// same time whatever the rules are.
func (c *Compiled) Killed(now time.Time) bool { return c != nil && c.kill.on(now) }

// digestName returns the name of a Set without a Version.
func digestName(s Set) string {
	canon, err := json.Marshal(s)
	if err != nil {
		return "" // Compile says why
	}
	sum := sha256.Sum256(canon)
	return hex.EncodeToString(sum[:6])
}

// fallback returns what a Guard does with a key of the Store, by its rule's Away.
func (c *Compiled) fallback(key string) (f store.Fallback, ok bool) {
	name, _, _ := strings.Cut(key, "/")
	f, ok = c.fallbacks[name]
	return f, ok
}

// MarshalJSON returns the Set in the form that Parse reads.
func (c *Compiled) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte(`{"rules":[]}`), nil
	}
	return slices.Clone(c.canon), nil
}

// ClientAddress returns the address of a client behind the proxies that c
// trusts, see the function [ClientAddress].
func (c *Compiled) ClientAddress(remote netip.Addr, values func(name string) []string) netip.Addr {
	if c == nil {
		return plain(remote)
	}
	return ClientAddress(remote, c.proxies, values)
}
