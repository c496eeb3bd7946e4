package throttle

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Group is a bounded cache of independent Throttles, one for each name: a host,
// an account, a table. Names appear in logs: hash what is secret. Transports and
// interceptors keep their Throttles in a Group. Limits that one call is subject
// to together belong in one Throttle instead, as scopes: see
// [CallOptions.Needs].
//
//	m := group.Enter(host)
//	defer m.Leave()
//	err := m.Throttle().Do(ctx, f)
//
// The zero value is ready. A Group is safe for concurrent use; it must not be
// copied, nor its fields changed, after first use.
type Group struct {
	// New returns the Throttle for a name that is entered for the first time.
	// It is called once at a time for each name. If it panics, so does Enter, and
	// the next Enter of that name calls it again. If nil, or if it returns nil, a
	// zero Throttle.
	New func(name string) *Throttle
	// MaxMembers bounds the names remembered. If zero or below, 1000. Beyond
	// it, the names not in use are forgotten, longest unused first; their
	// Throttles are new when they are entered again.
	MaxMembers int

	mu    sync.Mutex // guards names
	names names[Member]
}

// Member is a name that was entered. It is released by Leave.
type Member struct {
	making sync.Mutex // held while New runs
	made   atomic.Pointer[Throttle]
	in     *Group
	me     *named[Member]
}

// Enter finds or makes the member of that name. It is kept until Leave, which
// must be called once.
func (g *Group) Enter(name string) *Member {
	x := g.use(name)
	made := false
	defer func() {
		if !made { // New has panicked
			x.Leave()
		}
	}()
	x.make() // not under the lock: New is not ours
	made = true
	return x
}

// make has the Throttle made, unless it is.
func (m *Member) make() {
	if m.made.Load() != nil {
		return
	}
	m.making.Lock()
	defer m.making.Unlock()
	if m.made.Load() == nil {
		m.made.Store(m.in.make(m.me.name))
	}
}

func (g *Group) use(name string) *Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, isNew := g.names.use(name, g.MaxMembers)
	if isNew {
		x.of.in, x.of.me = g, x
	}
	return &x.of
}

func (g *Group) make(name string) *Throttle {
	if g.New != nil {
		if t := g.New(name); t != nil {
			t.call(name)
			return t
		}
	}
	return &Throttle{name: name}
}

// Len returns the number of names remembered.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.names.byName)
}

// All returns the names remembered when it begins, in no order, with their
// Throttles, for monitoring: it makes no Throttle, and does not count as use, so
// a name may be forgotten meanwhile. For a call, use [Group.Enter].
func (g *Group) All() iter.Seq2[string, *Throttle] {
	return func(yield func(string, *Throttle) bool) {
		for _, x := range g.members() {
			if t := x.of.made.Load(); t != nil && !yield(x.name, t) {
				return
			}
		}
	}
}

func (g *Group) members() []*named[Member] {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.names.byName))
}

// Throttle returns the Throttle of the name, the same for all that have entered
// it.
func (m *Member) Throttle() *Throttle { return m.made.Load() }

// Leave releases the member, when the caller of Enter is done with its
// Throttle. It panics where every Enter has left already: one call too many would
// let go of a Throttle that others use, or keep it for good.
func (m *Member) Leave() {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	if m.me.users == 0 {
		panic("throttle: Member.Leave is called more often than Group.Enter")
	}
	m.in.names.leave(m.me, m.in.MaxMembers)
}
