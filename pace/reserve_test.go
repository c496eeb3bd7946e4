package pace

import (
	"testing"
	"time"
)

// TestReserve: h grows with the swing of what remains, up to 128, and beyond it where
// a share is stated; it is no more than an eighth of a policy, but 2 at least.
func TestReserve(t *testing.T) {
	for _, c := range []struct {
		about        string
		quota, share float64
		high, low    int64
		want         float64
	}{
		{"a wide swing", 0, 0, 4000, 3000, 128},
		{"a swing of 300, and a share", 0, 20, 4000, 3700, 210},
		{"a wide swing, and a share", 0, 20, 4000, 3000, 300},
		{"a policy of 800", 800, 0, 700, 500, 100},
		{"a policy of 10", 10, 0, 9, 2, 2},
	} {
		a := new(Adaptive)
		a.begin(time.Unix(0, 0))
		a.share.agreed, a.level.quota, a.level.length = c.share, c.quota, 1
		for i, r := range []int64{c.high, c.low, c.high} {
			o := Outcome{Sent: a.base}
			o.Verdict, o.Hints.Remaining = Served, Some(r)
			a.level.look(a, float64(i)/1e6, 0, o)
		}
		if h := a.level.h; h < 0.99*c.want || h > 1.01*c.want {
			t.Errorf("%s: h %.1f, want %v", c.about, h, c.want)
		}
	}
}
