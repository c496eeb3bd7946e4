package throttleredis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// tag is the part of a name that a Redis Cluster hashes (its specification, "Key
// distribution model").
func tag(name string) string {
	open := strings.IndexByte(name, '{')
	if open < 0 {
		return name
	}
	if n := strings.IndexByte(name[open+1:], '}'); n > 0 {
		return name[open+1 : open+1+n]
	}
	return name
}

var hostile = []string{
	"", "a", "{", "}", "{}", "{a}", "}{", "a{b}c", "{a}{b}", "{{a}}", "\x00", "\xff\xfe", "#", "##", "#a", ":", "=a",
	strings.Repeat("x", longName-1), strings.Repeat("x", longName), strings.Repeat("x", longName) + "y", strings.Repeat("{", 10_000),
}

// TestNames: whatever is in a key, its name is its own, no longer than need be,
// and in the slot of its fence.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, slots := range []int{0, 1, 7, 16384, 1 << 30} {
		s := &Store{Slots: slots}
		for _, key := range hostile {
			fence := s.fenceName(s.slotOf(key))
			for _, kind := range []limit.Kind{limit.TokenBucket, limit.SlidingLog} {
				n := keyName(fence, key, kind)
				if tag(n) != tag(fence) {
					t.Errorf("%q is called %q, in another slot than %q", key, n, fence)
				}
				if len(n) > longName+40 {
					t.Errorf("%.20q is called %q, which is long", key, n)
				}
				own := key + kind.String()
				if before, ok := seen[n]; ok && before != own || n == fence {
					t.Errorf("%.20q and %.20q are both called %q", before, own, n)
				}
				seen[n] = own
			}
		}
	}
}

// TestSlots: keys with the same text in braces share a slot, and the rest are
// spread evenly.
func TestSlots(t *testing.T) {
	s := &Store{Slots: 64}
	for _, pair := range [][2]string{{"{a}b", "c{a}d{e}"}, {"{a}", "a"}, {"x{}y", "x{}y"}} {
		if s.slotOf(pair[0]) != s.slotOf(pair[1]) {
			t.Errorf("%q and %q are in different slots", pair[0], pair[1])
		}
	}
	var in [64]int
	for i := range 64_000 {
		in[s.slotOf("customer:"+strings.Repeat("z", i%7)+string(rune('a'+i%26))+strings.Repeat("9", i%5)+string(rune(i)))]++
	}
	for slot, n := range in {
		if n < 700 || n > 1300 {
			t.Errorf("slot %d has %d of 64,000 keys, want about 1000", slot, n)
		}
	}
	a := []limit.Ask{{Key: "a", Limit: hour}, {Key: "b", Limit: hour}}
	if _, err := s.Take(t.Context(), a, make([]limit.Decision, 2)); err == nil || !strings.Contains(err.Error(), `keys "a" and "b" are in different slots`) {
		t.Errorf("two keys in two slots: error %v", err)
	}
	one := []limit.Ask{{Key: "b"}, a[0], {Key: "c", Limit: limit.Limit{Period: time.Second}, N: 1}}
	if _, err := s.Take(t.Context(), one, make([]limit.Decision, 3)); err == nil || errors.Is(err, limit.ErrAsks) {
		t.Errorf("one key, and two of limits that remember nothing: error %v, want that there is no client", err)
	}
	s = &Store{Prefix: "my{app}", Do: func(context.Context, ...any) (any, error) { return nil, errors.New("sent") }}
	for name, call := range map[string]func() error{
		"Take":     func() error { _, err := s.Take(t.Context(), a, make([]limit.Decision, 2)); return err },
		"Check":    func() error { return s.Check(t.Context()) },
		"Expect":   func() error { return s.Expect(t.Context(), strings.Repeat("a", 40), time.Second) },
		"Unexpect": func() error { return s.Unexpect(t.Context()) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "has braces") {
			t.Errorf("%s of a prefix with braces: error %v", name, err)
		}
	}
}
