package throttleaws

import (
	"container/list"
	"sync"

	"github.com/throttle-go/throttle"
)

// scopes are the Throttles by name.
type scopes struct {
	mu     sync.Mutex // guards what follows
	byName map[string]*scope
	unused list.List // of *scope, longest unused first
}

// scope is what shares one limit.
type scope struct {
	name     string
	throttle func() *throttle.Throttle // made when first asked for, not under the lock
	users    int                       // calls under way
	unused   *list.Element             // in scopes.unused while users is zero
}

// enter finds or makes the scope of that name, which stays until leave.
func (c *scopes) enter(name string, most int, make func(string) *throttle.Throttle) *scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byName[name]
	if s == nil {
		if c.byName == nil {
			c.byName = map[string]*scope{}
		}
		s = &scope{name: name, throttle: sync.OnceValue(func() *throttle.Throttle { return make(name) })}
		c.byName[name] = s
	}
	if s.users++; s.unused != nil {
		c.unused.Remove(s.unused)
		s.unused = nil
	}
	c.forgetLocked(most)
	return s
}

func (c *scopes) leave(s *scope, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.users--; s.users == 0 {
		s.unused = c.unused.PushBack(s)
	}
	c.forgetLocked(most)
}

// forgetLocked drops unused scopes while there are too many.
func (c *scopes) forgetLocked(most int) {
	if most <= 0 {
		most = 1000
	}
	for len(c.byName) > most && c.unused.Len() > 0 {
		s := c.unused.Remove(c.unused.Front()).(*scope)
		delete(c.byName, s.name)
	}
}
