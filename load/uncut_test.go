package load_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
)

// A limit that was cut for a queue goes back to half of what it was if the server
// turns out to be slow by itself. Once base has shown that there was a queue, what
// the limit was counts no more, however slow the server becomes later.
func TestAdaptiveForgetsWhatItCut(t *testing.T) {
	a := newAnswers(t)
	a.feed(300, 20*ms, load.Served) // a queue of half of it
	a.feed(3*a.law.Limit(), 20*ms, load.Served)
	cut := a.law.Limit()
	if cut > 45 {
		t.Fatalf("limit %d after two cuts of a limit of 100, want at most 45", cut)
	}
	at := func(probing time.Duration) time.Duration { // answers of a probe, and with a queue that is allowed for
		if a.law.Limit() < cut {
			return probing
		}
		return probing * 23 / 20
	}
	for a.now.Before(t0.Add(29990 * ms)) { // base is seen again, and then at 30 s
		a.feed(1, at(10*ms), load.Served)
	}
	if got := a.law.Limit(); got != cut {
		t.Fatalf("limit %d with a queue that is allowed for, want %d still", got, cut)
	}
	low := false
	for end := a.now.Add(20 * time.Second); a.now.Before(end); {
		a.feed(1, at(17*ms), load.Served)
		switch got := a.law.Limit(); {
		case got < cut/4:
			low = true // a probe
		case low && got > cut:
			t.Fatalf("limit %d once the server is seen to be slower, want %d still", got, cut)
		case low && got > cut/4:
			return
		}
	}
	t.Error("no probe of a server that has become slower")
}
