package serve

import (
	"context"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// probe takes each lock that requests take, and asks the store, which may answer or
// not. It returns soon while the process makes progress; a reload or a source that
// takes long does not hold it up, nor does a store in a network, which has a deadline.
func (p *program) probe() {
	p.storage.ask(context.Background())
	p.control.InFlight.Stats()
	p.counter.Stats()
	if p.sources.stack != nil {
		p.sources.stack.Status()
	}
	if p.gateway != nil {
		p.gateway.Upstreams()
	}
}

// ask asks the store about a key that no request has. Nobody needs the answer.
func (s *storage) ask(ctx context.Context) {
	d := make([]limit.Decision, 1)
	_, _ = s.Take(ctx, []limit.Ask{{Key: "throttle/serve", Limit: limit.Limit{Count: 1, Period: time.Second}}}, d) // OnState says what is wrong
}
