package recent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
	"github.com/throttle-go/throttle/throttlesql"
)

// inPostgres is the document of top keys in PostgreSQL, through a pool of its own, as
// `throttle serve` opens it.
func inPostgres(t *testing.T, url string) *throttlesql.Document {
	t.Helper()
	named, err := stores.Open(t.Context(), url, stores.Options{Command: "serve", Timeout: 5 * time.Second, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(named.Close)
	d := &throttlesql.Document{Query: named.Store.(*throttlesql.Store).Query, Name: "overlay:top"}
	if err := d.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// instance is one that has decided 5 requests of a client of all and n of its own.
func instance(t *testing.T, url string, now time.Time, own string, n int) *Peers {
	t.Helper()
	r := &Decisions{Show: true}
	for client, n := range map[string]int{"all": 5, own: n} {
		for range n {
			r.sketch.Add(sketch.PaneAt(now), sketch.All, uint64(len(client)<<8)+uint64(client[0]), 1, "client/0/client="+client)
		}
	}
	return &Peers{Shared: inPostgres(t, url), Decisions: r}
}

// turns is a clock of instances that look at the document in turns, every 3 seconds.
type turns struct {
	t   *testing.T
	now time.Time
	// spare is how many turns more there may be where a turn had no answer in time.
	// With the others they must end before the panes do, 240 seconds after the first.
	spare int
}

// pass lets n turns of instances pass, while an operator looks at the first.
func (c *turns) pass(n int, all ...*Peers) {
	for range n {
		c.now = c.now.Add(every)
		all[0].Top(c.now, sketch.All, "", 9)
		for _, p := range all {
			p.look(c.t.Context(), c.now)
		}
	}
}

// settle lets turns pass, as far as they may, until each instance has had its last answer
// in time and hears so many, with itself.
func (c *turns) settle(instances int, all ...*Peers) {
	waits := func(p *Peers) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		n := 1
		for _, o := range p.others {
			if o.within(fresh, c.now) {
				n++
			}
		}
		return p.err != nil || n != instances
	}
	for ; c.spare > 0 && slices.ContainsFunc(all, waits); c.spare-- {
		c.pass(1, all...)
	}
}

// want checks what an instance has of all clients: how many instances, and counts.
func (c *turns) want(what string, p *Peers, instances int, want string) {
	c.t.Helper()
	top, n, err := p.Top(c.now, sketch.All, "client", 9)
	got := ""
	for _, k := range top.Keys {
		got += fmt.Sprintf(" %s:%d-%d", strings.TrimPrefix(k.Text, "client/0/client="), k.AtLeast, k.AtMost)
	}
	if err != nil || n != instances || got != want {
		c.t.Errorf("%s: %d instances,%s, %v, want %d,%s", what, n, got, err, instances, want)
	}
}

// TestPeersPostgres: two instances share their top keys through PostgreSQL, with one that
// ends, a server that crashes and comes back, and a row that somebody removes.
func TestPeersPostgres(t *testing.T) {
	server := clitest.StartPostgres(t)
	c := turns{t: t, now: sketch.Since(time.Now()), spare: 20} // the beginning of a pane
	a, b := instance(t, server.URL, c.now, "a", 3), instance(t, server.URL, c.now, "b", 2)
	const both, alone = " all:10-10 a:3-3 b:2-2", " all:5-5 a:3-3"
	c.pass(3, a, b)
	c.settle(2, a, b)
	c.want("after three turns", a, 2, both)
	c.want("in the other", b, 2, both)

	c.pass(6, a)
	c.settle(1, a)
	c.want("18 seconds after the end of the other", a, 1, alone)
	c.pass(20, a)
	if _, data, err := a.Shared.Load(t.Context()); err != nil || len(documentOf(data).Parts) != 1 {
		t.Errorf("a minute after it: %v, %d parts, want that of one instance", err, len(documentOf(data).Parts))
	}

	b = instance(t, server.URL, c.now, "b", 2)
	c.pass(3, a, b)
	c.settle(2, a, b)
	c.want("with another in its place", a, 2, both)
	server.Stop()
	c.pass(6, a, b)
	if _, n, err := a.Top(c.now, sketch.All, "", 9); n != 1 || err == nil {
		t.Errorf("without the server: %d instances, %v, want one, and why", n, err)
	}
	server.Start()
	c.pass(3, a, b)
	c.settle(2, a, b)
	c.want("with the server back", a, 2, both)

	if err := a.Shared.(*throttlesql.Document).Query(t.Context(), `DELETE FROM throttle_document WHERE name = 'overlay:top' RETURNING true`).Scan(new(bool)); err != nil {
		t.Fatal(err)
	}
	c.pass(3, a, b)
	c.settle(2, a, b)
	c.want("after the row was removed", a, 2, both)
}

// TestPeersPostgresMany: as many instances as may take part share their keys in a row of
// at most 1 MiB, and one more says so. It has a MiB for each of them to read, so it runs
// with THROTTLE_SOAK=1 only.
func TestPeersPostgresMany(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: as many instances as may share keys over PostgreSQL are NOT tested; make soak runs it")
	}
	d := inPostgres(t, clitest.StartPostgres(t).URL)
	all := make([]*Peers, maxPeers+1)
	for i := range all {
		r := &Decisions{Show: true}
		c := control(t, r, `{"rules": [{"name": "rule-with-a-name", "key": "client", "limits": "5/h"}]}`)
		for j := range peerKeys {
			begin(t, c, 7, fmt.Sprintf("a-client-with-a-name-%03d-%02d", j, i), "/")
		}
		all[i] = &Peers{Shared: d, Decisions: r}
	}
	c := turns{t: t, now: time.Now()}
	c.pass(3, all...)
	for i, p := range all {
		if top, n, err := p.Top(c.now, sketch.All, "", 100); (err != nil) != (i == maxPeers) || n != maxPeers && i < maxPeers || top.Total == 0 {
			t.Errorf("instance %d: %d instances, %v, want %d, and an error of the last alone", i, n, err, maxPeers)
		}
	}
	if _, data, err := d.Load(t.Context()); err != nil || len(data) > 1<<20 || len(data) < 1<<19 {
		t.Errorf("a row of %d bytes, %v, want at most 1 MiB, and much of it", len(data), err)
	}
}
