package operate

import (
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Sparing bounds how often something is logged. It is safe for concurrent use.
type Sparing struct {
	// Most is the limit. If zero, once a second, and five times at once.
	Most limit.Limit

	mu    sync.Mutex
	state limit.State
}

// May reports whether it may be logged at the time now, and counts it if so.
func (s *Sparing) May(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.Most
	if most == (limit.Limit{}) {
		most = limit.Limit{Count: 1, Period: time.Second, Burst: 5}
	}
	next, d := limit.Take(s.state, now, limit.Ask{Limit: most, N: 1})
	s.state = next
	return d.OK
}
