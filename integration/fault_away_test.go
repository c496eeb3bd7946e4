package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestFaultAway: a server is killed and started again, or frozen and thawed,
// behind guards of every kind. Their callers see no error, wait for no longer
// than the guard does, and are treated as was chosen.
func TestFaultAway(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string][2]func(*testing.T, *rig.Node){
		"killed": {func(_ *testing.T, n *rig.Node) { n.Kill() }, func(t *testing.T, n *rig.Node) { n.Restart(t) }},
		"frozen": {func(_ *testing.T, n *rig.Node) { n.Freeze() }, func(_ *testing.T, n *rig.Node) { n.Thaw() }},
	} {
		t.Run(name, func(t *testing.T) {
			n := rig.Redis(t)
			r := connected(t, func() (rueidis.Client, error) { return rueidis.NewClient(clients.RueidisOptions(n.Addr)) })
			t.Cleanup(r.Close)
			var made calls
			for i, do := range []throttleredis.Do{quickDo(t, n.Addr), clients.Rueidis(r)} {
				for _, away := range []store.Fallback{store.FallbackLocal, store.FallbackAllow, store.FallbackDeny} {
					s := &throttleredis.Store{Do: do, Prefix: fmt.Sprint(i, away)}
					back(t, s)
					a := absence{guard: store.Guard{Store: s, Fallback: away, Instances: 10}}
					made.add(a.happen(t, func() { fault[0](t, n) }, func() { fault[1](t, n) }))
				}
			}
			made.inTime(t, 20*time.Millisecond) // the default of a Guard
		})
	}
}

// An absence is one outage behind a guard.
type absence struct{ guard store.Guard }

func (a *absence) happen(t *testing.T, begin, end func()) calls {
	t.Helper()
	g := &a.guard
	l := load{store: g, keys: []string{"away"}, limit: perMinute, callers: 4, deadline: sure}
	var begun, from, to time.Time // it is away from the second to the third
	got := l.run(t, func() {
		rest(t.Context(), 20*time.Millisecond)
		begin()
		begun = time.Now()
		rig.Until(t, "the guard has noticed", func() error { return is(g, true) })
		from = time.Now()
		rest(t.Context(), 200*time.Millisecond)
		to = time.Now()
		end()
		rig.Until(t, "the guard has noticed that it is over", func() error { return decides(g) })
	})
	if n, some := got.failures(); n > 0 {
		t.Errorf("%d calls failed, want none:%s", n, some)
	}
	counts := g.Stats()
	if counts.Fallback == 0 || counts.Decided == 0 || counts.Fallback+counts.Decided != int64(len(got.all)) {
		t.Errorf("of %d calls the guard counts %+v, want each once, and some of both kinds", len(got.all), counts)
	}
	switch away := got.between(from, to); g.Fallback {
	case store.FallbackAllow:
		if n := away.admitted("away"); n != int64(len(away.all)) {
			t.Errorf("open: %d of %d calls were admitted, want all", n, len(away.all))
		}
	case store.FallbackDeny:
		if n := away.admitted("away"); n != 0 {
			t.Errorf("closed: %d of %d calls were admitted, want none", n, len(away.all))
		}
	case store.FallbackLocal: // it may be used up when the guard has noticed
		if away = got.between(begun, to); away.admitted("away") == 0 {
			t.Errorf("share: none of %d calls was admitted, want some", len(away.all))
		}
	}
	if g.Fallback != store.FallbackAllow {
		got.within(t, perMinute, perMinute.Count/int64(g.Instances))
	}
	t.Logf("%+v", counts)
	return got
}

// between are the calls that began after one instant and ended before another.
func (c calls) between(from, to time.Time) (some calls) {
	for _, one := range c.all {
		if one.began.After(from) && one.end().Before(to) {
			some.all = append(some.all, one)
		}
	}
	return some
}

// decides is nil if a guard uses its store: it is neither away nor slow, and has
// decided. A machine that is busy with other tests makes it slow for a while.
func decides(g *store.Guard) error {
	if c := g.Stats(); c.Away || c.Slow || c.Decided == 0 {
		return fmt.Errorf("it counts %+v", c)
	}
	return nil
}

// is is nil if a guard takes its store for away, or not.
func is(g *store.Guard, away bool) error {
	if c := g.Stats(); c.Away != away {
		return fmt.Errorf("it counts %+v", c)
	}
	return nil
}
