package limit

import (
	"fmt"
	"testing"
)

func TestCheckAsks(t *testing.T) {
	keys := func(n int, more ...string) (a []Ask) {
		for i := range n {
			a = append(a, Ask{Key: fmt.Sprint(i)})
		}
		for _, k := range more {
			a = append(a, Ask{Key: k})
		}
		return a
	}
	for _, c := range []struct {
		a    []Ask
		d    int
		want string
	}{
		{nil, 0, "<nil>"},
		{keys(1), 1, "<nil>"},
		{keys(16), 16, "<nil>"},
		{keys(1000), 1000, "<nil>"},
		{keys(1), 0, "limit: malformed asks: asks and decisions differ in number"},
		{nil, 1, "limit: malformed asks: asks and decisions differ in number"},
		{keys(0, "a", "a"), 2, `limit: malformed asks: two asks about the key "a"`},
		{keys(3, "b", "", "c", ""), 7, `limit: malformed asks: two asks about the key ""`},
		{keys(100, "7"), 101, `limit: malformed asks: two asks about the key "7"`},
	} {
		if got := fmt.Sprint(CheckAsks(c.a, make([]Decision, c.d))); got != c.want {
			t.Errorf("CheckAsks(%d asks, %d decisions) = %s, want %s", len(c.a), c.d, got, c.want)
		}
	}
	a, d := keys(16), make([]Decision, 16)
	if n := testing.AllocsPerRun(100, func() { CheckAsks(a, d) }); n != 0 {
		t.Errorf("CheckAsks of 16 asks allocates %v times, want 0", n)
	}
}
