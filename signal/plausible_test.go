package signal

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Waits are read alike in all protocols: too long ones as an hour, and those of
// years not at all.
func TestPlausible(t *testing.T) {
	const day = 24 * time.Hour
	for asked, want := range map[time.Duration]pace.Opt[time.Duration]{
		0:             pace.Some[time.Duration](0),
		time.Second:   pace.Some(time.Second),
		day:           pace.Some(day),
		day + 1:       pace.Some(time.Hour),
		366 * day:     pace.Some(time.Hour),
		366*day + 1:   {},
		1<<63 - 1:     {},
		-1:            pace.Some[time.Duration](0),
		-day + 1:      pace.Some[time.Duration](0),
		-day:          {},
		-1 << 63:      {},
		1000000 * 1e9: pace.Some(time.Hour), // milliseconds as seconds
	} {
		if got := Plausible(asked); got != want {
			t.Errorf("Plausible(%v) = %v, want %v", asked, got, want)
		}
	}
}
