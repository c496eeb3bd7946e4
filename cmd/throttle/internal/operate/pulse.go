package operate

import (
	"fmt"
	"sync"
	"time"
)

// Pulse reports whether a process makes progress: whether a probe, which does what
// all of its work needs, ends. It is safe for concurrent use; its field must not
// change after first use.
type Pulse struct {
	// Probe returns soon while the process makes progress. It is called in a
	// goroutine of its own, once at a time.
	Probe func()

	mu    sync.Mutex
	began time.Time // of the probe in flight; zero if there is none
}

// Healthy begins a probe. The error says that the one before has not ended. It does
// not wait.
func (p *Pulse) Healthy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.began.IsZero() {
		return fmt.Errorf("no progress for %v: a probe of the store and the rules does not end", time.Since(p.began).Round(time.Millisecond))
	}
	p.began = time.Now()
	go func() {
		p.Probe()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.began = time.Time{}
	}()
	return nil
}
