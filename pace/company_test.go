package pace

import (
	"testing"
	"time"
)

// TestTrial: all clients yield for the same two minutes of each half hour, of whatever year.
func TestTrial(t *testing.T) {
	for _, from := range []time.Time{{}, time.Unix(-7200, 0), time.Unix(0, 0), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)} {
		for at, want := range map[time.Duration]bool{
			0: true, 119 * time.Second: true, 2 * time.Minute: false, 29 * time.Minute: false, 30 * time.Minute: true, 95 * time.Minute: false,
		} {
			if got := trial(from.Add(at), trialEvery); got != want {
				t.Errorf("%v after %v: %v, want %v", at, from, got, want)
			}
		}
	}
}
