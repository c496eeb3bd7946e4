package rules_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// reload is a source of which every other version is bad, in its last rule.
func reload(n *atomic.Int64) rules.Fetch {
	return func(context.Context, string) ([]byte, string, error) {
		i := n.Add(1)
		last := "1000000/s"
		if i%2 == 0 {
			last = "1000000/x"
		}
		return fmt.Appendf(nil, `{"version": "v%d", "rules": [
			{"name": "a.v%d", "key": "client", "limits": "1000000/s"}, {"name": "b.v%d", "key": "client", "limits": %q}]}`, i, i, i, last), "", nil
	}
}

// oneVersion is s, and fails where the two asks are not of the same version.
func oneVersion(s store.Store) store.Store {
	return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		var version [2]string
		for i := range a {
			_, rest, _ := strings.Cut(a[i].Key, ".")
			version[i%2], _, _ = strings.Cut(rest, "/")
		}
		if len(a) != 2 || version[0] != version[1] {
			return false, fmt.Errorf("one decision asks about %q and %q", a[0].Key, a[len(a)-1].Key)
		}
		return s.Take(ctx, a, d)
	})
}

// TestReloads: 10,000 reloads under load, half of them bad. Every request is
// decided, by both rules of one version.
func TestReloads(t *testing.T) {
	const reloads = 10_000
	var n, decided, dropped atomic.Int64
	s := rules.Source{Fetch: reload(&n)}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := oneVersion(new(memory.Store))
	var over atomic.Bool
	defer over.Store(true)
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			r := rules.Request{Client: fmt.Sprint("client", i)}
			for !over.Load() {
				a, err := s.Live.Load().Decide(context.Background(), store, r)
				_, version, _ := strings.Cut(a.Rule, ".")
				if err != nil || version != a.Version {
					t.Errorf("Decide = %+v, %v, want a rule of its version", a, err)
					return
				}
				if decided.Add(1); !a.OK {
					dropped.Add(1)
				}
			}
		})
	}
	for range reloads - 1 {
		err := s.Refresh(t.Context())
		var e *rules.Error
		if bad := n.Load()%2 == 0; bad != errors.As(err, &e) {
			t.Fatalf("reload %d = %v", n.Load(), err)
		}
	}
	over.Store(true)
	callers.Wait()
	st := s.Status()
	if st.Refreshes != reloads || st.Failures != reloads/2 || st.Swaps != reloads/2 || st.Version != fmt.Sprint("v", reloads-1) {
		t.Errorf("status %+v, want %d refreshes, half of them failures and half swaps", st, reloads)
	}
	if decided.Load() < 1000 || dropped.Load() > 0 {
		t.Errorf("%d decided, %d of them refused; want many and none", decided.Load(), dropped.Load())
	}
}
