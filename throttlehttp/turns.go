package throttlehttp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// A stated is a limit as a server states it: how many in how long, as far as it is known.
type stated struct {
	limit  pace.Opt[int64]
	window pace.Opt[time.Duration]
}

// same reports whether s and o may be one limit: an answer may leave the window out.
func (s stated) same(o stated) bool {
	return s.limit == o.limit && (s.window == o.window || !s.window.OK || !o.window.OK)
}

// turns tell apart the limits of a server that states now the one and now the other, as one
// that tells of the limit which binds: 10 a second and 5000 an hour. Each needs a pace of its
// own, as what remains of the one says nothing of the other.
//
// A limit that was changed looks the same at first. It replaces the old one if that does not
// come back.
type turns struct {
	main   stated
	others []stated // told besides main
	maybe  stated   // told since main was told last, so it may be another or have replaced it
	times  int      // how often
	since  time.Time
	vary   bool // the server states a limit that changes all the time
}

const (
	maxOthers    = 3                // more limits in turn are one that changes
	changedAfter = 20               // answers in a row state the new limit
	changedFor   = 10 * time.Second // at least so long
)

// another reports whether s is another limit than main. If changed, main has been
// replaced by it.
func (t *turns) another(s stated, now time.Time) (another, changed bool) {
	switch {
	case t.vary:
		return false, false
	case t.main == stated{}:
		t.main = s
	case s.same(t.main):
		if t.maybe != (stated{}) {
			t.others = append(t.others, t.maybe)
		}
		t.maybe = stated{}
	case slices.ContainsFunc(t.others, s.same):
		return true, false
	case !s.same(t.maybe):
		if t.maybe != (stated{}) {
			t.others = append(t.others, t.maybe)
		}
		t.maybe, t.times, t.since = s, 1, now
		t.vary = len(t.others) >= maxOthers
		return !t.vary, t.vary
	default:
		if t.times++; t.times < changedAfter || now.Sub(t.since) < changedFor {
			return true, false
		}
		t.main, t.maybe = s, stated{}
		return false, true
	}
	return false, false
}

// turn returns the scope of the limit that an answer states, where it is another than that of
// the scope which the answer is about, name, as answers state them in turn; otherwise name.
func (c *call) turn(r signal.Reading, name string) string {
	if !r.Limit.OK || r.Limit.V <= 0 || name != "" && !strings.HasPrefix(name, c.name+partOfUser) {
		return name
	}
	of := name
	if of == "" {
		of = c.name
	}
	another, changed := c.splits.turn(of, stated{r.Limit, r.Window}, time.Now())
	if changed {
		c.splits.forget(of + partOfLimit)
	}
	if !another {
		return name
	}
	return fmt.Sprintf("%s%s%d/%v", of, partOfLimit, r.Limit.V, r.Window.V)
}

// turn is another of the turns of a scope.
func (s *splits) turn(of string, l stated, now time.Time) (another, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turns[of]
	if t == nil {
		if s.turns == nil || len(s.turns) >= keptRoutes {
			s.turns = make(map[string]*turns)
		}
		t = new(turns)
		s.turns[of] = t
	}
	return t.another(l, now)
}

// forget makes no request subject to the scopes whose names begin so.
func (s *splits) forget(begin string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range []map[string][]throttle.Need{s.now, s.before} {
		for key, needs := range all {
			all[key] = slices.DeleteFunc(slices.Clone(needs), func(n throttle.Need) bool { return strings.HasPrefix(n.Scope, begin) })
		}
	}
}
