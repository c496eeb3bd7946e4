package importenvoy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/importenvoy"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// A model is a descriptor as the reference has it: this and find are the reference a
// second time, and share nothing with the package.
type model struct {
	key, value    string
	count         int // requests_per_unit; -1: no rate_limit, -2: unlimited
	unit          string
	shadow, share bool
	line          int // in the file
	below         []*model
}

func (m *model) composite() string {
	if m.value == "" {
		return m.key
	}
	return m.key + "_" + m.value
}

// starred matches by trying every length, which a short text allows.
func starred(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return starred(pattern[1:], text) || text != "" && starred(pattern, text[1:])
	}
	return text != "" && pattern[0] == text[0] && starred(pattern[1:], text[1:])
}

// find returns the descriptor whose limit counts, and by what the reference counts. odd
// reports that an entry has a key that no descriptor of its level has, and is found all
// the same, as remote=address is by the text remote_address: rules have no such.
func find(level []*model, entries []rules.Pair) (found *model, by string, odd bool) {
	for i, e := range entries {
		var next *model
		var shared bool
		both := e.Key + "_" + e.Value
		for _, m := range level {
			if m.composite() == both && next == nil {
				next = m
			}
		}
		for _, m := range level {
			if next == nil && strings.Contains(m.composite(), "*") && starred(m.composite(), both) {
				next, shared = m, m.share
			}
		}
		for _, m := range level {
			if next == nil && m.composite() == e.Key {
				next = m
			}
		}
		if next == nil {
			return nil, "", odd
		}
		odd = odd || !slices.ContainsFunc(level, func(m *model) bool { return m.key == e.Key })
		value := e.Value
		if shared {
			value = next.value
		}
		by += fmt.Sprintf("%q=%q,", e.Key, value)
		if i == len(entries)-1 {
			if next.count == -1 {
				return nil, "", odd
			}
			return next, by, odd
		}
		level = next.below
	}
	return nil, "", odd
}

var (
	someKeys   = []string{"a", "b", "a_b", "a_b_x"}
	someValues = []string{"", "", "x", "xy", "b", "b_x", "x*", "*y", "x*y", "b*", "*x*", "*", "b_x*"}
	sentValues = []string{"x", "xy", "xzy", "y", "b", "b_x", "b_xy", "x_y", "q", "by"}
	someUnits  = []string{"second", "MINUTE", "Hour", "day", "week", "month", "year"}
)

func one[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

// grow returns a random level, without two of one composite key.
func grow(r *rand.Rand, depth int) (level []*model) {
	seen := map[string]bool{}
	for range 1 + r.IntN(5) {
		m := &model{key: one(r, someKeys), value: one(r, someValues), count: -1}
		if seen[m.composite()] {
			continue
		}
		seen[m.composite()] = true
		if depth == 3 || r.IntN(3) > 0 {
			m.count, m.unit = r.IntN(50), one(r, someUnits)
			if r.IntN(8) == 0 {
				m.count = -2
			}
			m.shadow = r.IntN(4) == 0
		}
		m.share = strings.Contains(m.value, "*") && r.IntN(6) == 0
		if depth < 3 && r.IntN(2) == 0 {
			m.below = grow(r, depth+1)
		}
		level = append(level, m)
	}
	return level
}

// write writes a level as the reference reads it, and notes the lines.
func write(b *strings.Builder, level []*model, indent string) {
	if len(level) == 0 {
		return
	}
	b.WriteString(indent + "descriptors:\n")
	for _, m := range level {
		m.line = strings.Count(b.String(), "\n") + 1
		fmt.Fprintf(b, "%s- key: %s\n", indent, m.key)
		in := indent + "  "
		if m.value != "" {
			fmt.Fprintf(b, "%svalue: %q\n", in, m.value)
		}
		fmt.Fprintf(b, "%sshadow_mode: %t\n%sshare_threshold: %t\n", in, m.shadow, in, m.share)
		switch {
		case m.count == -2:
			fmt.Fprintf(b, "%srate_limit: {unlimited: true}\n", in)
		case m.count >= 0:
			fmt.Fprintf(b, "%srate_limit: {unit: %s, requests_per_unit: %d}\n", in, m.unit, m.count)
		}
		write(b, m.below, in)
	}
}

// send returns a random descriptor, most of them along the tree.
func send(r *rand.Rand, level []*model) (entries []rules.Pair) {
	for range 1 + r.IntN(3) {
		e := rules.Pair{Key: one(r, someKeys), Value: one(r, sentValues)}
		if len(level) > 0 && r.IntN(4) > 0 {
			m := one(r, level)
			if e.Key = m.key; m.value != "" && r.IntN(2) == 0 {
				e.Value = strings.ReplaceAll(m.value, "*", one(r, sentValues))
			}
			level = m.below
		}
		entries = append(entries, e)
		if r.IntN(2) == 0 && len(level) == 0 {
			break
		}
	}
	return entries
}

// asked is a Store that keeps the keys it was asked about.
type asked []string

func (a *asked) Take(_ context.Context, asks []limit.Ask, d []limit.Decision) (bool, error) {
	for i := range asks {
		*a = append(*a, asks[i].Key)
		d[i].OK = true
	}
	return true, nil
}

// opened compiles rules all of which can be seen to be asked.
func opened(t *testing.T, done importenvoy.Result) *rules.Compiled {
	set := done.Set
	set.Rules = append([]rules.Rule(nil), set.Rules...)
	for i := range set.Rules {
		set.Rules[i].Limits, set.Rules[i].Shadow = []rules.Limit{{Count: 1, Period: time.Second}}, rules.Shadow{}
	}
	c, err := rules.Compile(set)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wanted is the limit of a descriptor in rules.
func (m *model) wanted() rules.Limit {
	if m.count == -2 {
		return rules.Limit{}
	}
	hours := map[string]time.Duration{"hour": 1, "day": 24, "week": 7 * 24, "month": 30 * 24, "year": 365 * 24}
	period := hours[strings.ToLower(m.unit)] * time.Hour
	switch strings.ToLower(m.unit) {
	case "second":
		period = time.Second
	case "minute":
		period = time.Minute
	}
	return rules.Limit{Count: int64(m.count), Period: period, Kind: limit.FixedWindow}
}

// TestRandomTrees: for random descriptors the rules made of random trees ask the limit
// that the reference finds, and count by what it counts by.
func TestRandomTrees(t *testing.T) {
	trees, found, none, refused := 0, 0, 0, 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		level := grow(r, 1)
		var b strings.Builder
		b.WriteString("domain: edge\n")
		write(&b, level, "")
		done, err := importenvoy.Translate([]importenvoy.Source{{Name: "e", Data: []byte(b.String())}}, importenvoy.Options{})
		if err != nil {
			if !strings.Contains(err.Error(), "share_threshold in a descriptor with two entries") {
				t.Fatalf("seed %d: %v\n%s", seed, err, b.String())
			}
			refused++
			continue
		}
		trees++
		c := opened(t, done)
		byRule, byKey := map[string]string{}, map[string]string{}
		for range 60 {
			entries := send(r, level)
			var keys asked
			if _, err := c.Decide(t.Context(), &keys, rules.Request{Domain: "edge", Descriptor: entries}); err != nil {
				t.Fatal(err)
			}
			m, by, odd := find(level, entries)
			if odd {
				continue
			}
			if m == nil {
				if none++; len(keys) > 0 {
					t.Fatalf("seed %d: %v asks %v, want none\n%s\n%s", seed, entries, keys, b.String(), done.YAML())
				}
				continue
			}
			found++
			if len(keys) != 1 {
				t.Fatalf("seed %d: %v asks %v, want the descriptor in line %d\n%s\n%s", seed, entries, keys, m.line, b.String(), done.YAML())
			}
			same(t, seed, done, m, keys[0])
			rule, _, _ := strings.Cut(keys[0], "/")
			agree(t, seed, byRule, rule+" "+by, keys[0])
			agree(t, seed, byKey, keys[0], by)
		}
	}
	t.Logf("%d trees, %d refused, %d descriptors with a limit, %d without", trees, refused, found, none)
	if trees < 300 || found < 5000 || none < 5000 {
		t.Errorf("%d trees, %d refused, %d descriptors with a limit, %d without; want more", trees, refused, found, none)
	}
}

// limits is a Store that keeps the keys and limits it was asked about.
type limits []limit.Ask

func (l *limits) Take(_ context.Context, asks []limit.Ask, d []limit.Decision) (bool, error) {
	*l = append(*l, asks...)
	for i := range d {
		d[i].OK = true
	}
	return true, nil
}

// TestOverridesDecideTheSame: rules with overrides ask the same limits about random
// descriptors as a rule for each, and count the same together.
func TestOverridesDecideTheSame(t *testing.T) {
	asked, joined := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		level := grow(r, 1)
		var b strings.Builder
		b.WriteString("domain: edge\n")
		write(&b, level, "")
		sources := []importenvoy.Source{{Name: "e", Data: []byte(b.String())}}
		each, err := importenvoy.Translate(sources, importenvoy.Options{})
		few, e := importenvoy.Translate(sources, importenvoy.Options{Overrides: true})
		if (err == nil) != (e == nil) {
			t.Fatalf("seed %d: %v, with overrides %v\n%s", seed, err, e, b.String())
		}
		joined += len(each.Set.Rules) - len(few.Set.Rules)
		var all [2]*rules.Compiled
		for i, set := range []rules.Set{each.Set, few.Set} {
			if all[i], err = rules.Compile(set); err != nil {
				t.Fatal(err)
			}
		}
		there, back := map[string]string{}, map[string]string{}
		for range 60 {
			q := rules.Request{Domain: "edge", Descriptor: send(r, level)}
			var got [2]limits
			for i := range all {
				if _, err := all[i].Decide(t.Context(), &got[i], q); err != nil {
					t.Fatal(err)
				}
			}
			if len(got[0]) != len(got[1]) || len(got[0]) > 1 || len(got[0]) == 1 && got[0][0].Limit != got[1][0].Limit {
				t.Fatalf("seed %d: %v asks %v, with overrides %v\n%s\n%s", seed, q.Descriptor, got[0], got[1], each.YAML(), few.YAML())
			}
			if len(got[0]) == 1 {
				asked++
				agree(t, seed, there, got[0][0].Key, got[1][0].Key)
				agree(t, seed, back, got[1][0].Key, got[0][0].Key)
			}
		}
	}
	if t.Logf("%d asked, %d rules fewer", asked, joined); asked < 1500 || joined < 40 {
		t.Errorf("%d descriptors had a limit, %d rules were joined; want more", asked, joined)
	}
}

// same wants the rule of a key to be that of a descriptor.
func same(t *testing.T, seed uint64, done importenvoy.Result, m *model, key string) {
	t.Helper()
	name, _, _ := strings.Cut(key, "/")
	for i, r := range done.Set.Rules {
		if r.Name != name {
			continue
		}
		place := fmt.Sprintf("e:%d:", m.line)
		shadow := m.shadow && m.count != -2
		if !strings.HasPrefix(done.Places[i], place) || len(r.Limits) != 1 || r.Limits[0] != m.wanted() || r.Shadow.Rule != shadow {
			t.Fatalf("seed %d: rule %+v of %s, want that of %s with %v, shadow %t", seed, r, done.Places[i], place, m.wanted(), shadow)
		}
		return
	}
	t.Fatalf("seed %d: no rule %s", seed, name)
}

// agree wants a to go together with one b only.
func agree(t *testing.T, seed uint64, pairs map[string]string, a, b string) {
	t.Helper()
	if before, ok := pairs[a]; ok && before != b {
		t.Fatalf("seed %d: %s counts by %s and by %s", seed, a, before, b)
	}
	pairs[a] = b
}
