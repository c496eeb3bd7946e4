package throttletest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/limit"
)

// names are of keys that a store might mix up, cut, normalise or interpret.
func names() []string {
	x := strings.Repeat("x", 10_000)
	rng := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, 10_000) // that no compression makes shorter
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	return []string{
		"", " ", "  ", "a", "A", "a ", " a", "á", "a\u0301", "a\x00", "a\x00b", "\x00", "a\n", "a\r\n", "\n", "\t",
		"a:b", "a::b", "a/b", "a.b", "a_b", "a%b", "a%", "*", "a*", "?", "[a]", "{a}", "{", "}", "}{", "{}", "{}a", "{a}{b}",
		"'", "''", `"`, `""`, "`", "\\", "\\\\", "$1", "$2", "?1", "%s", "%", "a,b", "{a,b}", `{"a"}`, "(a)", "a;", "-- ", "/*",
		"'; DROP TABLE throttle; --", "\r\n*1\r\n$8\r\nFLUSHALL\r\n", "\xff", "\xfe\xff", "\xc0\x80", "\ufffd", "\u2028", "ß", "ss",
		"😀", "null", "NULL", "nil", "true", "0", "00", "-1", "1e0", "1", "1.0", `\x61`, `\000`, "%61", "&#97;",
		x[:255], x[:256], x[:257], x[:1023], x[:2705], x, x[:9_999] + "y",
		string(noise[:300]), string(noise), string(noise[:9_999]),
	}
}

// names gives one event to each of many keys: each must have its own.
func (s suite) names(t *testing.T) {
	all := names()
	for _, kind := range []limit.Kind{limit.TokenBucket, limit.SlidingLog, limit.SlidingSlots} {
		l := limit.Limit{Kind: kind, Count: 1, Period: day}
		for _, again := range []bool{false, true} {
			for _, name := range all {
				s.known(t, again, name, s.take(t, limit.Ask{Key: s.key(name), Limit: l, N: 1}))
			}
		}
		if t.Failed() {
			return
		}
		all = all[:20] // of the other kinds a few, and the long ones
		all = append(all, names()[len(names())-8:]...)
		s.run += "+" // whatever their kind, these are other keys
	}
	s.namesTogether(t)
}

// known tells whether the answer to the first question of a key, or to one
// after it, is right.
func (s suite) known(t *testing.T, again bool, name string, d limit.Decision) {
	t.Helper()
	switch {
	case again && d.OK:
		t.Errorf("key %.40q is not remembered", name)
	case !again && !d.OK:
		t.Errorf("key %.40q is taken for another, used before", name)
	}
}

// namesTogether asks for the same keys, many at a time.
func (s suite) namesTogether(t *testing.T) {
	l := limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: 365 * day}
	for _, again := range []bool{false, true} {
		for part := range slices.Chunk(names(), 16) {
			var a []limit.Ask
			for _, name := range part {
				a = append(a, limit.Ask{Key: s.together(name), Limit: l, N: 1})
			}
			d, _, err := s.ask(t, a...)
			if err != nil {
				t.Fatalf("Take(%s): error %v", told(a), err)
			}
			for i := range d {
				s.known(t, again, part[i], d[i])
			}
		}
	}
}
