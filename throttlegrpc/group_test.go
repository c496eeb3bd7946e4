package throttlegrpc

import (
	"testing"

	"github.com/throttle-go/throttle"
)

// Group leads to the Throttles of a Client, whether they are its own or given.
func TestClientGroup(t *testing.T) {
	var given throttle.Group
	for _, c := range []*Client{{MaxWait: -1}, {Throttles: &given}} {
		m := c.enter("target")
		defer m.Leave()
		if g := c.Group(); (g == &given) != (c.Throttles != nil) || g.Len() != 1 {
			t.Errorf("Throttles %p: Group %p of %d", c.Throttles, g, g.Len())
		}
		n := 0
		for name, th := range c.Group().All() {
			n++
			if name != "target" || th != m.Throttle() || c.Throttles == nil && th.MaxWait != -1 {
				t.Errorf("%q leads to %+v", name, th.Status())
			}
		}
		if n != 1 {
			t.Errorf("%d Throttles, want 1", n)
		}
	}
}
