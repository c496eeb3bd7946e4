package throttleaws_test

import (
	"testing"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

// Group leads to the Throttles of a Gates, whether they are its own or given.
func TestGatesGroup(t *testing.T) {
	var given throttle.Group
	if g := (&throttleaws.Gates{Throttles: &given}).Group(); g != &given {
		t.Errorf("Group is %p, want %p", g, &given)
	}
	own := &throttleaws.Gates{MaxWait: -1}
	m := own.Group().Enter("table")
	defer m.Leave()
	if th := m.Throttle(); th.MaxWait != -1 || th.Budget != pace.AWSBudget || own.Group().Len() != 1 {
		t.Errorf("it makes %+v", th.Status())
	}
}
