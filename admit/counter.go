package admit

import "sync"

// Counter counts the decisions of Controls by rule and reason: set
// Control.OnEvent to its OnEvent. The zero value is ready. One Counter may
// serve several Controls. It is safe for concurrent use. There is one number
// for each rule and reason, whatever callers send; beyond 10,000, as after many
// swaps of the rules, new ones count under an empty rule.
type Counter struct {
	mu sync.Mutex
	n  map[Counted]int64
}

// Counted is the key of a count: decisions that agree in it are counted
// together.
type Counted struct {
	// Rule is the rule that decided; empty if none did.
	Rule string
	// Reason is that of the Event; or shadow, for a shadow rule that would have
	// refused; or shadow-error and refund-error, for failures of the Store.
	Reason string
	// Degraded reports that the request was answered with less.
	Degraded bool
}

const maxCounts = 10_000

// OnEvent counts e.
func (c *Counter) OnEvent(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(Counted{e.Answer.Rule, e.Reason(), e.Degraded})
	for _, rule := range e.Answer.Shadow {
		c.add(Counted{Rule: rule, Reason: "shadow"})
	}
	if e.Answer.ShadowErr != nil {
		c.add(Counted{Reason: "shadow-error"})
	}
	if e.RefundErr != nil {
		c.add(Counted{Reason: "refund-error"})
	}
}

func (c *Counter) add(what Counted) {
	if c.n == nil {
		c.n = make(map[Counted]int64)
	}
	if _, known := c.n[what]; !known && len(c.n) >= maxCounts {
		what.Rule = ""
	}
	c.n[what]++
}

// Stats returns the counts so far.
func (c *Counter) Stats() map[Counted]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[Counted]int64, len(c.n))
	for what, n := range c.n {
		all[what] = n
	}
	return all
}
