package pace

import (
	"testing"
	"time"
)

// snyk go-application-framework 649: where the cap is checked first, jitter goes
// beyond it. UpwardJitter alone may, by its Spread: with it, those who have
// reached the Cap stay apart.
func TestJitterComesBeforeTheCap(t *testing.T) {
	const longest = 5 * time.Second
	for j := NoJitter; j <= UpwardJitter; j++ {
		most := longest
		if j == UpwardJitter {
			most += longest / 2
		}
		b := Backoff{Cap: longest, Jitter: j, Spread: 0.5}
		prev := time.Duration(0)
		for try := range 2000 {
			prev = b.Delay(try%20, prev, luckOf(1, uint64(try), try))
			if prev > most {
				t.Fatalf("jitter %d: retry %d rests %v; want at most %v", j, try%20, prev, most)
			}
		}
	}
}
