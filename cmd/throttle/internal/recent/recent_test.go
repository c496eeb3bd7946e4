package recent

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

// control returns a Control by rules whose decisions are remembered.
func control(t testing.TB, r *Decisions, text string) *admit.Control {
	t.Helper()
	c, err := rules.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(c)
	all := &admit.Control{Store: new(memory.Store), Rules: live}
	if r != nil {
		r.Prepare(live)
		all.OnEvent = func(e admit.Event) { r.OnEvent(&e) }
	}
	return all
}

// begin decides n requests of a client, and ends them.
func begin(t testing.TB, c *admit.Control, n int, client, path string) (passed int) {
	t.Helper()
	for range n {
		a, err := c.Begin(context.Background(), admit.Request{Request: rules.Request{
			Client: client, Path: path, Method: "GET", Address: netip.MustParseAddr("192.0.2.1"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		if a.OK {
			passed++
		}
		a.Done()
	}
	return passed
}

const several = `{"allow": ["client=free"], "rules": [
	{"name": "client", "key": "client", "limits": ["10/h", "1000/h"]},
	{"name": "all", "limits": "10000/h"},
	{"name": "tiny", "match": {"paths": "/tiny"}, "key": "client", "limits": "1/h"},
	{"name": "tried", "shadow": true, "key": "client", "limits": "1/h"},
	{"name": "held", "match": {"paths": "/held"}, "key": "client", "in_flight": 1}
]}`

func TestTop(t *testing.T) {
	r := Decisions{Show: true}
	c := control(t, &r, several)
	begin(t, c, 25, "a", "/")    // 10 pass, two of them near
	begin(t, c, 3, "b", "/")     // all pass
	begin(t, c, 2, "d", "/tiny") // one passes: a limit of one is never near
	begin(t, c, 9, "free", "/")
	held, err := c.Begin(t.Context(), admit.Request{Request: rules.Request{Client: "e", Path: "/held"}})
	if err != nil || !held.OK {
		t.Fatalf("the first in flight: %v %v", held.OK, err)
	}
	begin(t, c, 4, "e", "/held")
	held.Done()
	for _, c := range []struct {
		by   sketch.By
		rule string
		want string
	}{
		{sketch.All, "", "all/0:31 client/0/client=a:25 held/0/client=e:4 client/0/client=b:3 client/0/client=d:2 tiny/0/client=d:2 client/0/client=e:1"},
		{sketch.All, "client", "client/0/client=a:25 client/0/client=b:3 client/0/client=d:2 client/0/client=e:1"},
		{sketch.Refused, "", "client/0/client=a:15 held/0/client=e:4 tiny/0/client=d:1"},
		{sketch.Near, "", "client/0/client=a:2"},
		{sketch.Near, "tiny", ""},
	} {
		top, got := r.Top(time.Now(), c.by, c.rule, 20), []string{}
		for _, k := range top.Keys {
			got = append(got, fmt.Sprintf("%s:%d", k.Text, k.Count))
			if k.AtLeast != k.Count || k.AtMost != k.Count {
				t.Errorf("%s: %d to %d, want exactly %d", k.Text, k.AtLeast, k.AtMost, k.Count)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("by %d, rule %q:\n%s\nwant\n%s", c.by, c.rule, got, c.want)
		}
	}
}

// TestKeyID: a key is called what logs call it.
func TestKeyID(t *testing.T) {
	var r Decisions
	c := control(t, &r, several)
	id := ""
	next := c.OnEvent
	c.OnEvent = func(e admit.Event) { id = e.KeyID(); next(e) }
	begin(t, c, 11, "a", "/")
	top := r.Top(time.Now(), sketch.Refused, "", 1)
	if len(top.Keys) != 1 || top.Keys[0].ID != id || top.Keys[0].Text != "" {
		t.Errorf("Top: %+v, want the key %s, and no text of it", top.Keys, id)
	}
}

// TestKill: what the kill switch lets pass is not refused.
func TestKill(t *testing.T) {
	var r Decisions
	c := control(t, &r, `{"kill": {"on": true}, "rules": [{"name": "client", "key": "client", "limits": "1/h"}]}`)
	begin(t, c, 5, "a", "/")
	if top := r.Top(time.Now(), sketch.Refused, "", 1); top.Total != 0 {
		t.Errorf("Top: %+v, want nothing refused", top)
	}
	if top := r.Top(time.Now(), sketch.All, "", 1); top.Total != 5 {
		t.Errorf("Top: %+v, want five decisions", top)
	}
}

// TestAllocates: what is remembered allocates nothing.
func TestAllocates(t *testing.T) {
	var r Decisions
	var last admit.Event
	c := control(t, nil, several)
	c.OnEvent = func(e admit.Event) { last = e }
	r.Prepare(c.Rules)
	begin(t, c, 11, "a", "/")
	r.OnEvent(&last)
	if n := testing.AllocsPerRun(1000, func() { r.OnEvent(&last) }); n != 0 {
		t.Errorf("%v allocations for a decision, want none", n)
	}
}

// TestPrepare: requests that end under a version that was replaced do not read it
// again, nor do others read the new one: that is done at the swap.
func TestPrepare(t *testing.T) {
	var r Decisions
	var last admit.Event
	c := control(t, nil, several)
	c.OnEvent = func(e admit.Event) { last = e }
	r.Prepare(c.Rules)
	begin(t, c, 1, "a", "/")
	r.OnEvent(&last)
	old, is := c.Rules.Load(), r.view.Load()
	c.Rules.Swap(parse(t, `{"rules": [{"name": "field", "key": "header:X-A", "limits": "9/h"}]}`))
	both := func() {
		for _, last.Request.Version = range []*rules.Compiled{c.Rules.Load(), old} {
			r.OnEvent(&last)
		}
	}
	if n := testing.AllocsPerRun(100, both); n != 0 || r.view.Load() != is {
		t.Errorf("%v allocations for two decisions around a swap, want none, and the view of before", n)
	}
	r.Prepare(c.Rules)
	is = r.view.Load()
	if n := testing.AllocsPerRun(100, both); n != 0 || r.view.Load() != is || is.of != c.Rules.Load() || r.leftOut.Load() != 0 {
		t.Errorf("%v allocations after Prepare, %d left out, a view of %v, want none, and the version in use", n, r.leftOut.Load(), is.fields)
	}
	if r.Prepare(c.Rules); r.view.Load() != is {
		t.Error("Prepare reads the same version again")
	}
}
