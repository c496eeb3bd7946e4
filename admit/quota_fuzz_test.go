package admit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// quotaScript plays operations on a Quota whose counts take as long as the
// script says, and remembers everything that ever happened.
type quotaScript struct {
	q       Quota
	now     int             // events so far
	loads   chan chan int64 // loads in flight tell here where to send the count
	under   chan int64      // of the load in flight; nil: none
	began   int             // when it began
	first   int64           // objects there were then
	at      int             // when the one that holds began; zero: there is none
	count   int64           // that it found
	objects int64           // in the database
	open    []*scripted     // granted, not ended
	ended   map[int][]int64 // what was Done, by when
	granted chan *Creation
}

type scripted struct {
	c       *Creation
	visible bool
}

const quotaMost = 6

func newQuotaScript() *quotaScript {
	s := &quotaScript{loads: make(chan chan int64, 1), ended: map[int][]int64{}, granted: make(chan *Creation, 1000)}
	s.q.Count = func(ctx context.Context, _ string) (int64, error) {
		answer := make(chan int64)
		s.loads <- answer
		n := <-answer
		if n < 0 {
			return 0, errBoom
		}
		return n, nil
	}
	return s
}

// settle waits until nothing moves, and collects what came of it.
func (s *quotaScript) settle() {
	synctest.Wait()
	for {
		select {
		case s.under = <-s.loads:
			s.began, s.first = s.now, s.objects
		case c := <-s.granted:
			s.open = append(s.open, &scripted{c: c})
		default:
			return
		}
	}
}

func (s *quotaScript) step(ctx context.Context, op, x byte) {
	s.now++
	i := int(x) % max(len(s.open), 1)
	switch op % 8 {
	case 0, 1:
		go func() {
			if c, err := s.q.Create(ctx, "k", int64(x%3)+1, quotaMost); err == nil && c.OK {
				s.granted <- c
			}
		}()
	case 2: // becomes visible
		if len(s.open) > 0 && !s.open[i].visible {
			s.open[i].visible = true
			s.objects += s.open[i].c.n
		}
	case 3: // ends
		if len(s.open) > 0 {
			s.end(s.open[i])
			s.open = append(s.open[:i:i], s.open[i+1:]...)
		}
	case 4: // is deleted; told now, or never
		if s.objects > s.visible() {
			s.objects--
			if x%2 == 0 {
				s.q.Deleted("k", 1)
			}
		}
	case 5: // the truth is that of the beginning, or of the end
		if x%2 == 0 {
			s.answer(s.objects)
			return
		}
		s.answer(s.first)
	case 6:
		s.answer(-1)
	case 7:
		time.Sleep(time.Duration(x%4) * 20 * time.Second)
	}
}

// visible is what can be counted of that which has not ended.
func (s *quotaScript) visible() (n int64) {
	for _, o := range s.open {
		if o.visible {
			n += o.c.n
		}
	}
	return n
}

func (s *quotaScript) end(o *scripted) {
	if o.visible {
		o.c.Done()
		s.ended[s.now] = append(s.ended[s.now], o.c.n)
	}
	o.c.Cancel()
}

// answer ends the load in flight.
func (s *quotaScript) answer(n int64) {
	if s.under == nil {
		return
	}
	s.under <- n
	s.under = nil
	if n >= 0 {
		s.at, s.count = s.began, n
	}
}

// held is the rule, naively: the count, what was Done since its load began, and
// what is pending.
func (s *quotaScript) held() (n int64) {
	if s.at > 0 {
		n = s.count
	}
	for when, all := range s.ended {
		for _, done := range all {
			if s.at > 0 && when > s.at {
				n += done
			}
		}
	}
	for _, o := range s.open {
		n += o.c.n
	}
	return n
}

// FuzzQuota: whatever overlaps, what is held is as the rule says, and there is
// never more than may be.
func FuzzQuota(f *testing.F) {
	f.Add([]byte("\x00\x02\x05\x00\x02\x00\x03\x00\x07\x03\x00\x00\x04\x00\x05\x00"))
	f.Add([]byte("\x00\x02\x00\x02\x00\x02\x05\x01\x02\x00\x02\x01\x07\x03\x00\x00\x03\x00\x05\x00\x03\x00\x05\x00"))
	f.Add([]byte("\x00\x01\x06\x00\x07\x01\x00\x01\x05\x00\x02\x00\x03\x00\x04\x00\x00\x02\x00\x02\x00\x02\x05\x01"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := newQuotaScript()
			for ; len(ops) >= 2 && s.now < 200; ops = ops[2:] {
				s.step(ctx, ops[0], ops[1])
				s.settle()
				got, _, _ := s.q.Held("k")
				if want := s.held(); s.at > 0 && got != want || s.objects > quotaMost {
					t.Fatalf("step %d, %d %% 8 = %d: %d objects, most %d; Held() = %d, want %d",
						s.now, ops[0], ops[0]%8, s.objects, quotaMost, got, want)
				}
			}
			cancel()
			for s.settle(); s.under != nil; s.settle() {
				s.answer(s.objects)
			}
		})
	})
}
