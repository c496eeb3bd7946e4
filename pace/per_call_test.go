package pace

import (
	"testing"
	"time"
)

// A refusal is of one call alone where its retry is refused though others sent since were served,
// and few first tries are refused.
func TestRefusalsOfOneCall(t *testing.T) {
	first := func(p *perCall, n int, v Verdict) {
		for range n {
			p.ofOneCall(p.servedSent+1, 0, true, v)
		}
	}
	for _, c := range []struct {
		name                     string
		served, refused          int // first tries
		votes                    int
		retry                    bool
		before                   float64 // when the try before was sent, after the last one served
		want                     bool
		wantAfterOneMoreIsServed bool
	}{
		{"a first refusal", 100, 0, 0, false, 0, false, false},
		{"a retry, others were served since", 100, 0, 0, true, -1, true, true},
		{"a retry, none was served since", 100, 0, 0, true, 1, false, false},
		{"too few first tries to say", 30, 0, 0, true, -1, false, false},
		{"too many are refused", 60, 4, 0, true, -1, false, false},
		{"a first try after four votes", 60, 8, 4, false, 0, true, false},
		{"a first try after three", 60, 8, 3, false, 0, false, false},
		{"a first try after four, a fifth refused", 50, 12, 4, false, 0, false, false},
	} {
		for _, servedRetry := range []bool{false, true} {
			p := new(perCall)
			first(p, c.served, Served)
			first(p, c.refused, Throttled)
			p.votes = c.votes
			want := c.want
			if servedRetry {
				p.ofOneCall(p.servedSent, 0, false, Served)
				want = c.wantAfterOneMoreIsServed
			}
			if got := p.ofOneCall(p.servedSent+2, p.servedSent+c.before, !c.retry, Throttled); got != want {
				t.Errorf("%s, a retry was served: %v: of one call is %v, want %v", c.name, servedRetry, got, want)
			}
		}
	}
}

// A call that was throttled twice lets one other start before its retry; one that was throttled once
// keeps its place, and so does one that no other waits behind.
func TestRefusedAgainLetsAnotherPass(t *testing.T) {
	for _, others := range []int{0, 2} {
		g, now := &Gate{Control: &Fixed{Rate: 1}}, at(0)
		tickets := make([]*Ticket, 1+others)
		for i := range tickets {
			tickets[i] = &Ticket{Owner: i}
			g.Enter(now, tickets[i])
		}
		var order []int
		for range 8 {
			tk, again := g.Next(now)
			for tk == nil {
				now = now.Add(again)
				tk, again = g.Next(now)
			}
			i := tk.Owner.(int)
			order = append(order, i)
			v := Served
			if i == 0 {
				v = Throttled
			}
			if !g.Done(now, tk, Report{Verdict: v}) && i > 0 {
				tickets[i] = &Ticket{Owner: i}
				g.Enter(now, tickets[i])
			}
		}
		zeros := 0
		for i, x := range order {
			if x == 0 {
				zeros++
			}
			if others > 0 && i > 1 && x == 0 && order[i-1] == 0 {
				t.Errorf("%d others: started %v, want another after each retry", others, order)
				break
			}
		}
		if others > 0 && (order[0] != 0 || order[1] != 0 || zeros < 4) || others == 0 && zeros != 8 {
			t.Errorf("%d others: started %v, want the first at once, its first retry next, and then every other one", others, order)
		}
		if now.Sub(at(0)) > 8*time.Second {
			t.Errorf("%d others: took %v, want one start a second", others, now.Sub(at(0)))
		}
	}
}
