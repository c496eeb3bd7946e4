package importenvoy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/throttle-go/throttle/cmd/throttle/internal/importenvoy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/rules"
)

type (
	config     = ratelimitpb.RateLimitConfig
	descriptor = ratelimitpb.RateLimitDescriptor
	policy     = ratelimitpb.RateLimitPolicy
)

// hourly is the rate_limit that most cases have.
var hourly = &policy{Unit: ratelimitpb.RateLimitUnit_HOUR, RequestsPerUnit: 9}

// sent is messages as a server sends them.
func sent(t *testing.T, all ...proto.Message) (resources [][]byte) {
	t.Helper()
	for _, m := range all {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		resources = append(resources, data)
	}
	return resources
}

// plus is a message with more behind it.
func plus(m *descriptor, more []byte) *descriptor {
	m.ProtoReflect().SetUnknown(more)
	return m
}

// TestResources: each rule is that of a file with the same content; places are paths.
func TestResources(t *testing.T) {
	route := "httproute/default/web/rule/0/match/0/*"
	gateway := &config{Name: "default/eg/http", Domain: "default/eg/http", Descriptors: []*descriptor{{
		Key: route, Value: route, Descriptors: []*descriptor{
			{Key: "rule-0-match-0", RateLimit: hourly},
			{Key: "rule-1-match-0", Value: "rule-1-match-0", ShadowMode: true, DetailedMetric: true, Descriptors: []*descriptor{
				{Key: "masked_remote_address", Value: "10.0.0.0/8", ShadowMode: true, RateLimit: &policy{Unit: 7, RequestsPerUnit: 3}},
			}},
		},
	}}}
	edge := &config{Name: "edge", Domain: "edge", Descriptors: []*descriptor{
		{Key: "user", RateLimit: &policy{Unlimited: true, Name: "n"}},
		{Key: "ip", Value: "192.0.2.7", RateLimit: &policy{Unit: ratelimitpb.RateLimitUnit_SECOND}},
	}}
	done, err := importenvoy.Resources(sent(t, edge, gateway))
	want := `default-eg-http.httproute-default-web-rule-0-match-0-_h-6599177b # default/eg/http descriptors[0].descriptors[0] | default/eg/http [httproute/default/web/rule/0/match/0/*=httproute/default/web/rule/0/match/0/*, rule-0-match-0] | descriptor | 9/h
default-eg-http.httproute-default-web-rule-0-match-0-_h-73891cc9 # default/eg/http descriptors[0].descriptors[1].descriptors[0] | default/eg/http [httproute/default/web/rule/0/match/0/*=httproute/default/web/rule/0/match/0/*, rule-1-match-0=rule-1-match-0, masked_remote_address=10.0.0.0/8] | descriptor | 3/week | shadow
edge.user # edge descriptors[0] | edge [user] | descriptor | unlimited
edge.ip_192.0.2.7-e34cdf9b # edge descriptors[1] | edge [ip=192.0.2.7] | descriptor | 0/s`
	if got := lines(done); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if got, want := strings.Join(done.Notes, "\n"), `edge descriptors[1].rate_limit: no requests_per_unit, which is 0: all are refused
default/eg/http descriptors[0].descriptors[1]: detailed_metric is about metrics alone; left out
edge descriptors[0].rate_limit: name: answers have the name of the rule; left out`; got != want {
		t.Errorf("notes\n%s\nwant\n%s", got, want)
	}
	for _, r := range done.Set.Rules {
		if !r.Lookup {
			t.Errorf("%s does not take the limit that Envoy sends", r.Name)
		}
	}
	other, err := importenvoy.Resources(sent(t, gateway, edge))
	if err != nil || !reflect.DeepEqual(other, done) {
		t.Errorf("in another order: %v, %v", err, other)
	}
}

// TestResourcesRefused: what is wrong is one line with the resource, the path and what
// would be right.
func TestResourcesRefused(t *testing.T) {
	one := func(d ...*descriptor) [][]byte {
		return sent(t, &config{Name: "edge", Domain: "edge", Descriptors: d})
	}
	deep := &descriptor{Key: "x"}
	for range 120 {
		deep = &descriptor{Key: "x", Descriptors: []*descriptor{deep}}
	}
	many := make([]*descriptor, 1001)
	for i := range many {
		many[i] = &descriptor{Key: fmt.Sprint("k", i), RateLimit: hourly}
	}
	quota := protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 1)
	for _, x := range []struct {
		in   [][]byte
		want string
	}{
		{[][]byte{{0xff}}, "a resource without a name: cut short, or not a RateLimitConfig"},
		{[][]byte{append(sent(t, &config{Name: "edge"})[0], 0x12, 9, 'x')}, "edge: cut short, or not a RateLimitConfig"},
		{sent(t, &config{Name: "edge"}), "edge: no domain; write domain: NAME, as Envoy sends it"},
		{sent(t, &config{Domain: "a*"}), "a resource without a name: domain a*: the reference takes '*' as it is"},
		{sent(t, &config{Name: "a", Domain: "edge"}, &config{Name: "b", Domain: "edge"}), "b: domain edge is that of a too; there is one resource for each domain"},
		{one(&descriptor{Value: "x"}), "edge descriptors[0]: a descriptor without a key; write key: NAME"},
		{one(&descriptor{Key: "x", RateLimit: &policy{RequestsPerUnit: 1}}), "edge descriptors[0].rate_limit: rate_limit: no unit; write second, minute"},
		{one(&descriptor{Key: "x", RateLimit: &policy{Unit: 9}}), "edge descriptors[0].rate_limit: unit: 9 is not known; write second"},
		{one(&descriptor{Key: "x", RateLimit: &policy{Unit: 1, Unlimited: true}}), "edge descriptors[0].rate_limit: unit with unlimited"},
		{one(&descriptor{Key: "x", RateLimit: hourly}, &descriptor{Key: "x"}), "edge descriptors[1]: x is there twice, first at edge descriptors[0]"},
		{one(plus(&descriptor{Key: "x", RateLimit: hourly}, quota)), "edge descriptors[0]: quota_mode: rules decide for each descriptor by itself"},
		{one(plus(&descriptor{}, []byte{0x0a, 1, 0xff})), "edge descriptors[0]: key: not UTF-8"},
		{one(&descriptor{Key: "x", RateLimit: &policy{Unit: 1, Name: "n", Replaces: []*ratelimitpb.RateLimitReplace{{Name: "n"}}}}), "edge descriptors[0].rate_limit.replaces[0]: replaces: n is the name of the same limit"},
		{one(deep), "nested more than 100 deep"},
		{one(many...), "edge descriptors[1000]: this limit would be rule 1001; there are at most 1000"},
		{make([][]byte, 1001), "resources: 1001 of them; there are at most 1000"},
		{[][]byte{[]byte(strings.Repeat("\x1a\x00", 100_001))}, "a resource without a name: more than 100000 values in all resources"},
	} {
		done, err := importenvoy.Resources(x.in)
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") || done.Set.Rules != nil {
			t.Errorf("%.80q: %v, %v; want no rules, ...%s...", x.in, done.Set.Rules, err, x.want)
		}
	}
}

// TestResourcesUnknown: what is not known is left out, and said; a message in parts is one.
func TestResourcesUnknown(t *testing.T) {
	more := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), []byte{0x10, 4})  // rate_limit: {requests_per_unit: 4}
	more = protowire.AppendBytes(protowire.AppendTag(more, 8, protowire.BytesType), []byte("\xff"))   // metadata, not looked into
	more = protowire.AppendVarint(protowire.AppendTag(more, 99, protowire.VarintType), 1)             // of a later release
	more = protowire.AppendBytes(protowire.AppendTag(more, 5, protowire.BytesType), []byte("a text")) // not a bool
	done, err := importenvoy.Resources(sent(t, &config{Name: "edge", Domain: "edge", Descriptors: []*descriptor{plus(&descriptor{Key: "x", RateLimit: hourly}, more)}}))
	if got, want := lines(done), "edge.x # edge descriptors[0] | edge [x] | descriptor | 4/h"; err != nil || got != want {
		t.Errorf("%v, %s, want %s", err, got, want)
	}
	if got, want := strings.Join(done.Notes, "\n"), `edge descriptors[0]: field 99 of RateLimitDescriptor is not known; left out
edge descriptors[0]: field 5 of RateLimitDescriptor is not known; left out
edge descriptors[0]: metadata goes into answers and decides nothing; left out`; got != want {
		t.Errorf("notes\n%s\nwant\n%s", got, want)
	}
}

// TestResourceNames: no rule has another name because of another resource, nor where both
// would have the same.
func TestResourceNames(t *testing.T) {
	name := func(all ...proto.Message) (names []string) {
		done, err := importenvoy.Resources(sent(t, all...))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range done.Set.Rules {
			names = append(names, r.Name)
		}
		return names
	}
	a := &config{Name: "1", Domain: "a.b", Descriptors: []*descriptor{{Key: "c", RateLimit: hourly}}}
	b := &config{Name: "2", Domain: "a", Descriptors: []*descriptor{{Key: "b", Descriptors: []*descriptor{{Key: "c", RateLimit: hourly}}}}}
	if got, want := name(a, b), append(name(a), name(b)...); !reflect.DeepEqual(got, want) {
		t.Errorf("together %q, alone %q", got, want)
	}
}

// messagesOf are random descriptors as messages.
func messagesOf(level []*model) (all []*descriptor) {
	units := map[string]ratelimitpb.RateLimitUnit{"SECOND": 1, "MINUTE": 2, "HOUR": 3, "DAY": 4, "MONTH": 5, "YEAR": 6, "WEEK": 7}
	for _, m := range level {
		d := &descriptor{Key: m.key, Value: m.value, ShadowMode: m.shadow, Descriptors: messagesOf(m.below)}
		switch {
		case m.count == -2:
			d.RateLimit = &policy{Unlimited: true}
		case m.count >= 0:
			d.RateLimit = &policy{Unit: units[strings.ToUpper(m.unit)], RequestsPerUnit: uint32(m.count)}
		}
		all = append(all, d)
	}
	return all
}

// unshared takes away share_threshold, which resources do not have.
func unshared(level []*model) {
	for _, m := range level {
		m.share = false
		unshared(m.below)
	}
}

// TestResourcesAsFiles: random trees make the same rules as resources and as files.
func TestResourcesAsFiles(t *testing.T) {
	n := 0
	for seed := range uint64(200) {
		level := grow(rand.New(rand.NewPCG(seed, 3)), 1)
		unshared(level)
		var b strings.Builder
		b.WriteString("domain: edge\n")
		write(&b, level, "")
		file, err := importenvoy.Translate([]importenvoy.Source{{Name: "e", Data: []byte(b.String())}}, importenvoy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		served, err := importenvoy.Resources(sent(t, &config{Name: "e", Domain: "edge", Descriptors: messagesOf(level)}))
		for i := range served.Set.Rules {
			served.Set.Rules[i].Lookup = false
		}
		if err != nil || !reflect.DeepEqual(served.Set, file.Set) {
			t.Fatalf("seed %d: %v, rules\n%v\nwant\n%v", seed, err, served.Set, file.Set)
		}
		n += len(file.Set.Rules)
	}
	if n < 1000 {
		t.Errorf("%d rules, want more", n)
	}
}

// FuzzResources: any bytes are refused in one line, or make rules that can be used.
func FuzzResources(f *testing.F) {
	data, err := proto.Marshal(&config{Name: "edge", Domain: "edge", Descriptors: []*descriptor{{Key: "x", Value: "a*", ShadowMode: true, RateLimit: hourly, Descriptors: []*descriptor{{Key: "y"}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		done, err := importenvoy.Resources([][]byte{data})
		if flaw := (*tree.Error)(nil); err != nil && (!errors.As(err, &flaw) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %v, want one line with a place", data, err)
		}
		if err == nil {
			if _, err = rules.Compile(done.Set); err != nil {
				t.Errorf("%q: %v", data, err)
			}
		}
	})
}
