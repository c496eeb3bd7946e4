package rules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// described is a descriptor of a domain, written KEY=VALUE.
func described(domain string, pairs ...string) rules.Request {
	r := rules.Request{Domain: domain}
	for _, text := range pairs {
		key, value, _ := strings.Cut(text, "=")
		r.Descriptor = append(r.Descriptor, rules.Pair{Key: key, Value: value})
	}
	return r
}

// TestDescriptorMatch: a rule is for descriptors of its domains that have exactly its
// entries, in their order.
func TestDescriptorMatch(t *testing.T) {
	for _, x := range []struct {
		match string
		of    rules.Request
		want  bool
	}{
		{`"domains": "edge"`, described("edge", "a=1"), true},
		{`"domains": "edge"`, described("edge"), true},
		{`"domains": "edge"`, described("edge2", "a=1"), false},
		{`"domains": "edge"`, described("", "a=1"), false},
		{`"domains": ["x", "e*"]`, described("edge", "a=1"), true},
		{`"domains": "*"`, described("", "a=1"), true},
		{`"domains": "*"`, rules.Request{Path: "/"}, false},
		{`"descriptor": "a"`, described("edge", "a=1"), true},
		{`"descriptor": "a"`, described("", "a="), true},
		{`"descriptor": "a"`, described("edge"), false},
		{`"descriptor": "a"`, described("edge", "b=1"), false},
		{`"descriptor": "a"`, described("edge", "a=1", "b=1"), false},
		{`"descriptor": ["a", "b"]`, described("edge", "a=1"), false},
		{`"descriptor": ["a", "b"]`, described("edge", "b=1", "a=1"), false},
		{`"descriptor": ["a=1", "b=x*"]`, described("edge", "a=1", "b=xy"), true},
		{`"descriptor": ["a=1", "b=x*"]`, described("edge", "a=1", "b=y"), false},
		{`"descriptor": "a=b=c"`, described("edge", "a=b=c"), true},
		{`"descriptor": "a=*"`, described("edge", "a="), true},
		{`"descriptor": {"key": "a", "value": "/api/*", "not": ["/api/x", "*.css"]}`, described("edge", "a=/api/y"), true},
		{`"descriptor": {"key": "a", "value": "/api/*", "not": ["/api/x", "*.css"]}`, described("edge", "a=/api/x"), false},
		{`"descriptor": {"key": "a", "value": "/api/*", "not": ["/api/x", "*.css"]}`, described("edge", "a=/api/y.css"), false},
		{`"descriptor": {"key": "a", "not": "1"}`, described("edge", "a=2"), true},
		{`"descriptor": {"key": "a=b"}`, rules.Request{Descriptor: []rules.Pair{{Key: "a=b"}}}, true},
		{`"domains": "edge", "descriptor": "a"`, described("other", "a=1"), false},
		{``, described("edge", "a=1"), false},
		{`"paths": "/"`, described("edge", "a=1"), false},
		{`"client": "unknown"`, described("edge", "a=1"), false},
		{`"descriptor": "a"`, rules.Request{Path: "/"}, false},
	} {
		c := mustParse(t, `{"rules": [{"name": "r", "limits": "5/s", "match": {`+x.match+`}}]}`)
		if a := ask(t, c, newBook(), x.of); a.Rule == "r" != x.want {
			t.Errorf("Decide(%s %v) by a rule for {%s} = %v, want asked %t", x.of.Domain, x.of.Descriptor, x.match, a.Reason, x.want)
		}
	}
}

func TestDescriptorKeys(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "d", "key": "domain+descriptor", "match": {"domains": "*"}, "limits": "9/s"},
		{"name": "e", "key": "entry:b+entry:c+address", "match": {"domains": "*"}, "limits": "9/s"}
	]}`)
	r := described("ed/ge", "a=1", "b=2", "b=3")
	r.Address = addr("192.0.2.1")
	want := regexp.MustCompile(`^d/0/domain=ed%2Fge/descriptor=%~[\w-]{22} e/0/entry:b=%~[\w-]{22}/entry:c=/address=192.0.2.1$`)
	if got := strings.Join(keysOf(t, c, r), " "); !want.MatchString(got) {
		t.Errorf("keys = %s, want %v", got, want)
	}
	seen := map[string]rules.Request{}
	for _, r := range []rules.Request{
		described("x", "a=1"),
		described("x", "a=1", "a=1"),
		described("x", "a=1,a=1"),
		described("x", "a=1%2Ca=1"),
		{Domain: "x", Descriptor: []rules.Pair{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}},
		{Domain: "x", Descriptor: []rules.Pair{{Key: "a", Value: "1,b=2"}}},
		{Domain: "x", Descriptor: []rules.Pair{{Key: "a=1,b", Value: "2"}}},
		{Domain: "x", Descriptor: []rules.Pair{{Key: "a", Value: "1,b"}, {Key: "", Value: "2"}}},
		{Domain: "x", Descriptor: []rules.Pair{{Key: "a=1", Value: ""}}},
		{Domain: "x", Descriptor: []rules.Pair{{Key: "a", Value: "=1"}}},
		{Domain: "x", Descriptor: []rules.Pair{{Key: "a", Value: ""}, {Key: "", Value: ""}}},
		{Domain: "xx", Descriptor: []rules.Pair{{Key: "a", Value: "1"}}},
	} {
		key := keysOf(t, c, r)[0]
		if other, twice := seen[key]; twice {
			t.Errorf("%q and %q have one key %s", r.Descriptor, other.Descriptor, key)
		}
		seen[key] = r
	}
}

// TestDescriptorLists: lists, overrides and switches know the parts of descriptors, and
// those of other requests do not apply to them.
func TestDescriptorLists(t *testing.T) {
	c := mustParse(t, `{
		"deny": ["203.0.113.0/24", "entry:user=mallory", "domain=closed", "descriptor=a=1,b=2"],
		"allow": ["entry:user=root", "path=/*", "path:1=x", "host=*", "method=GET"],
		"rules": [{"name": "r", "key": "entry:user+descriptor", "match": {"domains": "*"}, "limits": "1/s", "overrides": [
			{"key": ["*", "user=acme"], "limits": "7/s"}, {"key": ["big-*", "*"], "limits": "8/s"}
		]}]}`)
	from := described("edge", "remote_address=203.0.113.9")
	from.Address = addr("203.0.113.9")
	for _, x := range []struct {
		of    rules.Request
		want  rules.Reason
		count int64
	}{
		{from, rules.Denied, 0},
		{described("edge", "user=mallory"), rules.Denied, 0},
		{described("closed", "user=jane"), rules.Denied, 0},
		{described("edge", "a=1", "b=2"), rules.Denied, 0},
		{described("edge", "user=root"), rules.Allowed, 0},
		{described("edge", "user=jane"), rules.Within, 1},
		{described("edge", "user=acme"), rules.Within, 7},
		{described("edge", "user=big-1"), rules.Within, 8},
	} {
		if a := ask(t, c, newBook(), x.of); a.Reason != x.want || a.Limit.Count != x.count {
			t.Errorf("Decide(%v) = %v by %d/s, want %v by %d/s", x.of.Descriptor, a.Reason, a.Limit.Count, x.want, x.count)
		}
	}
}

// TestHitsAddend: a descriptor takes its addend, of any rule nothing if that is zero.
func TestHitsAddend(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "plain", "match": {"domains": "*"}, "limits": "99/s"},
		{"name": "named", "match": {"domains": "*"}, "cost": "hits_addend", "limits": "99/s"},
		{"name": "fixed", "match": {"domains": "*"}, "cost": 5, "limits": "99/s"},
		{"name": "other", "match": {"domains": "*"}, "cost": "bytes", "limits": "99/s"},
		{"name": "one", "match": {"domains": "*"}, "cost": 1, "limits": "99/s"}
	]}`, "bytes")
	for _, x := range []struct {
		addend int64
		want   [5]int64
	}{
		{1, [5]int64{1, 1, 5, 40, 1}},
		{7, [5]int64{7, 7, 5, 40, 1}},
		{0, [5]int64{}},
		{-1, [5]int64{}},
	} {
		b, r := newBook(), described("edge", "a=1")
		r.Cost = func(name string) int64 {
			return map[string]int64{"bytes": 40, rules.HitsAddend: x.addend}[name]
		}
		ask(t, c, b, r)
		for i, want := range x.want {
			if got := b.used(b.calls[0][i]); got != want {
				t.Errorf("addend %d: %s takes %d, want %d", x.addend, b.calls[0][i], got, want)
			}
		}
	}
	b := newBook()
	ask(t, c, b, described("edge", "a=1"))
	if got := b.used("plain/0"); got != 1 {
		t.Errorf("without a Cost a descriptor takes %d, want 1", got)
	}
}

// TestDebt: what costs something is charged though it does not fit, and what costs nothing
// is refused while the key owes something.
func TestDebt(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "bytes", "match": {"descriptor": "user"}, "key": "entry:user", "debt": true, "limits": "100/min burst 100"},
		{"name": "sent", "key": "client", "cost": "sent", "debt": true, "limits": "100/min burst 100"}
	]}`, "sent")
	now, cost := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), int64(0)
	book := map[string]limit.State{}
	s := store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		book[a[0].Key], d[0] = limit.Take(book[a[0].Key], now, a[0])
		return d[0].OK, nil
	})
	for _, r := range []rules.Request{described("edge", "user=jane"), {Client: "jane"}} {
		r.Cost = func(string) int64 { return cost }
		decide := func(n int64) bool {
			t.Helper()
			cost = n
			a, err := c.Decide(t.Context(), s, r)
			if err != nil {
				t.Fatal(err)
			}
			return a.OK
		}
		got := []bool{decide(0), decide(150), decide(0), decide(10), decide(0)}
		now = now.Add(37 * time.Second) // which pays 61 of the 60 owed
		if got = append(got, decide(0), decide(1), decide(1)); !slices.Equal(got, []bool{true, true, false, true, false, true, true, true}) {
			t.Errorf("decisions of %v%s: %v", r.Descriptor, r.Client, got)
		}
	}
}

func TestDescriptorJSON(t *testing.T) {
	for _, x := range [][2]string{
		{`"a"`, `["a"]`},
		{`["a", "b=1*"]`, `["a","b=1*"]`},
		{`{"key": "a", "value": "1"}`, `["a=1"]`},
		{`[{"key": "a", "not": "1"}]`, `[{"key":"a","not":["1"]}]`},
		{`{"key": "a=b", "value": "1"}`, `[{"key":"a=b","value":"1"}]`},
	} {
		c := mustParse(t, `{"rules": [{"name": "r", "limits": "1/s", "match": {"descriptor": `+x[0]+`}}]}`)
		if got, err := json.Marshal(c.Set().Rules[0].Match.Descriptor); err != nil || string(got) != x[1] {
			t.Errorf("%s is written as %s, %v; want %s", x[0], got, err, x[1])
		}
	}
}

func TestParseDescriptor(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"", `[]`},
		{"a=1", `[{"a" "1"}]`},
		{"a", `[{"a" ""}]`},
		{"a=1,b=x=y", `[{"a" "1"} {"b" "x=y"}]`},
		{"a%3Db=1%2C2,c=50%25", `[{"a=b" "1,2"} {"c" "50%"}]`},
		{"c=50%", `rules: descriptor "c=50%": a '%' without two hexadecimal digits; write %25 for it`},
		{"a=1,,b=2", `rules: descriptor "a=1,,b=2": an entry without a key; write KEY=VALUE,KEY=VALUE`},
		{"=1", `rules: descriptor "=1": an entry without a key; write KEY=VALUE,KEY=VALUE`},
	} {
		all, err := rules.ParseDescriptor(x.text)
		got := fmt.Sprintf("%q", all)
		if again, _ := rules.ParseDescriptor((&rules.Request{Descriptor: all}).DescriptorText()); !slices.Equal(again, all) {
			t.Errorf("DescriptorText of %q is read as %q", all, again)
		}
		if err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("ParseDescriptor(%q) = %s, want %s", x.text, got, x.want)
		}
	}
}

func TestEntryAddress(t *testing.T) {
	for _, x := range []struct {
		of   rules.Request
		want string
	}{
		{described("x"), "invalid IP"},
		{described("x", "remote_address=192.0.2.1"), "192.0.2.1"},
		{described("x", "a=1", "remote_address=2001:db8::1"), "2001:db8::1"},
		{described("x", "masked_remote_address=10.1.0.0/16"), "10.1.0.0"},
		{described("x", "masked_remote_address=10.1.0.0/16", "remote_address=10.1.2.3"), "10.1.2.3"},
		{described("x", "remote_address=a pipe", "masked_remote_address=10.1.0.0"), "10.1.0.0"},
		{described("x", "address=192.0.2.1"), "invalid IP"},
	} {
		if got := x.of.EntryAddress().String(); got != x.want {
			t.Errorf("EntryAddress of %v = %s, want %s", x.of.Descriptor, got, x.want)
		}
	}
}

// TestDescriptorsAmongRules: of many rules those are asked that would be asked alone, in
// the order of the file.
func TestDescriptorsAmongRules(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	any := func(all ...string) string { return all[r.IntN(len(all))] }
	var texts []string
	var alone []*rules.Compiled
	for i := range 120 {
		match := any(`"domains": "edge"`, `"domains": "e*"`, `"paths": "/"`)
		if n := r.IntN(4); n > 0 && match != `"paths": "/"` {
			var pairs []string
			for range n {
				pairs = append(pairs, any(`"a"`, `"b"`, `"a=1"`, `"b=2"`, `"a=1*"`, `{"key": "a", "not": "1"}`, `{"key": "a\u0000a", "value": "1"}`))
			}
			match += `, "descriptor": [` + strings.Join(pairs, ",") + `]`
		}
		shadow := any("", `, "shadow": {"limits": "8/h"}`)
		texts = append(texts, fmt.Sprintf(`{"name": "r%d", "limits": "9/h", "match": {%s}%s}`, i, match, shadow))
		alone = append(alone, mustParse(t, `{"rules": [`+texts[i]+`]}`))
	}
	all := mustParse(t, `{"rules": [`+strings.Join(texts, ",")+`]}`)
	calls := func(c *rules.Compiled, of rules.Request) (keys []string) {
		b := newBook()
		ask(t, c, b, of)
		return slices.Concat(b.calls...)
	}
	for range 500 {
		of := rules.Request{Path: "/", Domain: any("", "edge", "other")}
		for range r.IntN(4) {
			of.Descriptor = append(of.Descriptor, rules.Pair{Key: any("a", "b", "a\x00a"), Value: any("", "1", "2", "12", "a\x001")})
		}
		var want, tried []string
		for _, c := range alone {
			for _, key := range calls(c, of) {
				if strings.Contains(key, "/s") {
					tried = append(tried, key)
				} else {
					want = append(want, key)
				}
			}
		}
		if got := calls(all, of); !slices.Equal(got, append(want, tried...)) {
			t.Fatalf("%s %q: asked %q, want %q", of.Domain, of.Descriptor, got, want)
		}
	}
}
