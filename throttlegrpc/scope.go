package throttlegrpc

import (
	"container/list"
	"sync"

	"github.com/throttle-go/throttle"
)

// scope is what shares one limit.
type scope struct {
	name     string
	once     sync.Once // makes
	throttle *throttle.Throttle
	users    int           // calls under way
	unused   *list.Element // in scopes.unused while users is zero
}

// scopes are those in use, and some that were.
type scopes struct {
	mu     sync.Mutex // guards all below, and users and unused of each
	most   int
	named  map[string]*scope
	unused list.List // of *scope, longest unused first
}

// enter finds or makes the scope of that name, which stays until leave. most
// and make are those of the Client.
func (t *scopes) enter(name string, most int, make func(string) *throttle.Throttle) *scope {
	s := t.use(name, most)
	s.once.Do(func() { // not under the lock: make is not ours
		s.throttle = new(throttle.Throttle)
		if make == nil {
			return
		}
		if made := make(name); made != nil {
			s.throttle = made
		}
	})
	return s
}

func (t *scopes) use(name string, most int) *scope {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.most = most; most == 0 {
		t.most = 1000
	}
	s := t.named[name]
	if s == nil {
		if t.named == nil {
			t.named = make(map[string]*scope)
		}
		s = &scope{name: name}
		t.named[name] = s
	}
	if s.users++; s.unused != nil {
		t.unused.Remove(s.unused)
		s.unused = nil
	}
	t.forgetLocked()
	return s
}

func (t *scopes) leave(s *scope) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 {
		s.unused = t.unused.PushBack(s)
	}
	t.forgetLocked()
}

// forgetLocked drops unused scopes while there are too many.
func (t *scopes) forgetLocked() {
	for len(t.named) > t.most && t.unused.Len() > 0 {
		s := t.unused.Remove(t.unused.Front()).(*scope)
		delete(t.named, s.name)
	}
}
