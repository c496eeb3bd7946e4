// Package recent remembers what was decided in the last minutes, for operators:
// which keys use most of a rate limit (heavy hitters, package sketch), and the
// requests themselves, to replay them by other rules (package outcome). It stands
// behind the OnEvent of an admit.Control.
package recent

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// Decisions are the recent ones. The zero value is ready. It is safe for concurrent
// use; the fields must not change, nor it be copied, after first use.
type Decisions struct {
	// Show shows keys of up to 55 bytes in the clear. If false, only digests.
	Show bool
	// Remote says that the clock of the decisions is that of another machine, so
	// that the local one counts. If false, it is of this process.
	Remote bool

	once   sync.Once
	seed   maphash.Seed
	sketch sketch.Sketch

	ring    ring
	leftOut atomic.Int64 // requests that are not in the ring, as they are too long
	view    atomic.Pointer[view]
	looking sync.Mutex // held to make a view
	// fields are those of the views: names of header fields, in order. What is in
	// the list stays as it is.
	fields atomic.Pointer[[][]string]
}

func (r *Decisions) setUp() { r.seed = maphash.MakeSeed() }

// Top returns the n keys that most decisions were about, by a measure: at most n of
// a rule, or of all if it is empty. They are of two to four minutes before now.
func (r *Decisions) Top(now time.Time, by sketch.By, rule string, n int) sketch.Top {
	top := r.sketch.Top(sketch.PaneAt(now), by, rule, n)
	for i := range top.Keys {
		if !r.Show {
			top.Keys[i].Text = ""
		}
	}
	return top
}

// OnEvent remembers a decision, and counts it for each key that it was about. Of many
// it counts one in 16, and of very many one in 128, see [sketch.Sketch.Every]: of
// refusals only where they are many themselves. It neither keeps e nor changes it,
// allocates nothing, and holds locks for one copy at a time.
func (r *Decisions) OnEvent(e *admit.Event) {
	r.once.Do(r.setUp)
	at := e.Answer.Decision.At
	if r.Remote || at.IsZero() {
		at = time.Now()
	}
	r.record(e, at)
	r.count(e, sketch.PaneAt(at))
}

// count counts it. Of those that passed, which are the most, all but a few end at the
// draw: so that it is the most of what counting takes, nothing else of e is looked at
// before.
func (r *Decisions) count(e *admit.Event, pane int64) {
	every := r.sketch.Every(pane, sketch.All)
	if e.Verdict != admit.Admitted {
		r.countRefusal(e, pane, every)
		return
	}
	if len(e.Asks) == 0 || every > 1 && rand.Uint32()&(every-1) != 0 {
		return
	}
	c := counting{r: r, pane: pane, weight: every}
	c.asked(e, false)
}

// countRefusal counts one that did not pass, every of which stand for one. Refusals
// have a sample of their own, which has all of them where they are few.
func (r *Decisions) countRefusal(e *admit.Event, pane int64, every uint32) {
	busy, limited, refusals := e.Answer.Reason == rules.Busy, e.Verdict == admit.Limited, uint32(1)
	if len(e.Asks) == 0 && !busy {
		return
	}
	if busy || limited {
		refusals = r.sketch.Every(pane, sketch.Refused)
	}
	draw := uint32(0)
	if every > 1 || refusals > 1 {
		draw = rand.Uint32()
	}
	c := counting{r: r, pane: pane, weight: weigh(draw, every), refusal: weigh(draw, refusals)}
	switch {
	case c.weight == 0 && (c.refusal == 0 || !busy && !limited):
	case busy:
		c.add(e.Answer.Key(), true, false)
	default:
		c.asked(e, limited)
	}
}

// weigh returns for how many decisions one stands: zero if it is not in the sample.
// Every is a power of two.
func weigh(draw, every uint32) uint32 {
	if draw&(every-1) == 0 {
		return every
	}
	return 0
}

// counting counts one decision.
type counting struct {
	r    *Decisions
	pane int64
	// weight is for how many decisions it stands, and refusal for how many refusals if
	// it is one; zero if it is not in the sample.
	weight, refusal uint32
}

// asked counts for each rule that the decision was about. The limits of a rule stand
// beside each other, and are counted as one, by the key of the first.
func (c *counting) asked(e *admit.Event, refused bool) {
	for from := 0; from < len(e.Asks); {
		key := e.Asks[from].Key
		rule := key[:strings.IndexByte(key, '/')+1]
		to, over, near := from, false, false
		for ; to < len(e.Asks) && strings.HasPrefix(e.Asks[to].Key, rule); to++ {
			d := &e.Decisions[to]
			over = over || !d.OK
			near = near || Near(d)
		}
		c.add(key, refused && over, !refused && near && e.Answer.OK)
		from = to
	}
}

// Near reports whether a limit had room, and more than 80 % of it are used now. One
// of fewer than five is never near.
func Near(d *limit.Decision) bool {
	return d.OK && d.Max >= 5 && (d.Max-d.Remaining)*5 > d.Max*4
}

// add counts a decision about a key.
func (c *counting) add(key string, refused, near bool) {
	refused = refused && c.refusal > 0
	if !refused && c.weight == 0 {
		return
	}
	hash := maphash.String(c.r.seed, key)
	if refused {
		c.r.sketch.Add(c.pane, sketch.Refused, hash, c.refusal, key)
	}
	if c.weight > 0 {
		c.r.sketch.Add(c.pane, sketch.All, hash, c.weight, key)
		if near {
			c.r.sketch.Add(c.pane, sketch.Near, hash, c.weight, key)
		}
	}
}
