package throttle

import "sync"

// Group are Throttles by name, one for each limit that is a world of its own: a
// host, an account, a table. Transports and interceptors keep theirs in one.
// Limits that one call comes under several of belong into one Throttle instead,
// see [CallOptions].
//
// The zero value is ready. It is safe for concurrent use; its fields must not
// change once it is used.
type Group struct {
	// New makes the Throttle of a scope when it is first entered, one at a time
	// for each scope. If nil, or if it returns nil, a zero Throttle.
	New func(scope string) *Throttle
	// MaxMembers is how many scopes are remembered. If zero or below, 1000. Beyond it
	// those that nobody has entered, longest left first, are forgotten, and
	// begin afresh should they come again.
	MaxMembers int

	mu    sync.Mutex // guards names
	names names[Member]
}

// Member is one that was entered.
type Member struct {
	throttle func() *Throttle // made when first asked for
	in       *Group
	me       *named[Member]
}

// Enter finds or makes the scope of that name. It stays until Leave, which must
// follow once.
func (s *Group) Enter(name string) *Member {
	x := s.use(name)
	made := false
	defer func() {
		if !made { // New has panicked
			x.Leave()
		}
	}()
	x.throttle() // not under the lock: New is not ours
	made = true
	return x
}

func (s *Group) use(name string) *Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, isNew := s.names.use(name, s.MaxMembers)
	if isNew {
		x.of.in, x.of.me = s, x
		x.of.throttle = sync.OnceValue(func() *Throttle { return s.make(name) })
	}
	return &x.of
}

func (s *Group) make(name string) *Throttle {
	if s.New != nil {
		if t := s.New(name); t != nil {
			return t
		}
	}
	return new(Throttle)
}

// Len is how many scopes are remembered.
func (s *Group) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names.byName)
}

// Throttle is that of the scope, the same for all who have entered it.
func (s *Member) Throttle() *Throttle { return s.throttle() }

// Leave says that the caller of Enter is done with it.
func (s *Member) Leave() {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.in.names.leave(s.me, s.in.MaxMembers)
}
