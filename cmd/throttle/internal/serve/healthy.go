package serve

import (
	"context"

	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
)

// probe takes each lock that requests take, and asks the store, which may answer or
// not. It returns soon while the process makes progress; a reload or a source that
// takes long does not hold it up, nor does a store in a network, which has a deadline.
func (p *program) probe() {
	stores.Probe(context.Background(), p.storage)
	p.control.InFlight.Stats()
	p.counter.Stats()
	if p.sources.stack != nil {
		p.sources.stack.Status()
	}
	if p.gateway != nil {
		p.gateway.Upstreams()
	}
}
