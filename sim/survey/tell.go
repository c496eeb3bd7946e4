package survey

import (
	"math/rand/v2"

	"github.com/throttle-go/throttle/sim"
)

// Tell returns the cell with one more true hint, drawn among those that it does
// not give; ok is false if it gives them all. Calls that arrive by themselves
// arrive at the same times.
func (c Cell) Tell() (told Cell, ok bool) {
	h := c.Scenario.Server.Hints
	var all []sim.Hints
	for i, has := range []bool{h.Remaining, h.RetryAfter, h.Reset, h.Policy} {
		if more := h; !has {
			*[]*bool{&more.Remaining, &more.RetryAfter, &more.Reset, &more.Policy}[i] = true
			all = append(all, more)
		}
	}
	if len(all) == 0 {
		return c, false
	}
	r := rand.New(rand.NewPCG(c.Seed, ^uint64(c.Number)))
	c.Scenario.Server.Hints = all[r.IntN(len(all))]
	c.Scenario.Name += "-told"
	return c, true
}
