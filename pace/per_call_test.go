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

// A call that is refused for itself rests about twice as long each time, 20 minutes at most.
func TestRestOfACallRefusedForItself(t *testing.T) {
	for _, c := range []struct{ rest, least, most time.Duration }{
		{0, 50 * time.Millisecond, 150 * time.Millisecond}, // half and one and a half of a round trip
		{10 * time.Second, 10 * time.Second, 30 * time.Second},
		{time.Hour, 20 * time.Minute, 20 * time.Minute},
	} {
		for luck := range Luck(50) {
			a := &Adaptive{rtt: 0.1, perCall: perCall{seen: perCallOver, servedSent: 7200}}
			a.begin(at(0))
			o := Outcome{Report: Report{Verdict: Throttled, After: time.Minute}, Sent: at(7201 * time.Second)}
			o.Request = Request{Try: 3, Since: at(7200 * time.Second), Rest: c.rest, Luck: luck}
			rest := a.setApart(o.Sent.Sub(a.epoch).Seconds(), &o)
			if rest < c.least || rest > c.most+time.Nanosecond || o.Verdict != Failed || o.After != 0 {
				t.Fatalf("after a rest of %v: %v, %v after %v; want %v to %v, a failure and no wait of others", c.rest, rest, o.Verdict, o.After, c.least, c.most)
			}
		}
	}
}

// A stated limit is in the unit of the server. Forecasts count it in requests, of the mean cost.
func TestForecastOfALimitInCosts(t *testing.T) {
	forecast := func(cost, limit int64) time.Duration {
		a, now := new(Adaptive), at(0)
		for i := range 12 {
			r := Request{Since: now, Cost: cost}
			a.Start(now, r)
			o := Outcome{Report: Report{Verdict: Served, Cost: cost}, Request: r, Sent: now}
			o.Hints = Hints{
				Limit: Some(limit), Window: Some(time.Minute), Reset: Some(time.Minute - now.Sub(at(0))),
				Remaining: Some(limit - int64(i+1)*cost),
			}
			now = now.Add(time.Second)
			a.Observe(now, o)
		}
		return a.Wait(now, Request{Since: now, Cost: cost, Place: 500})
	}
	if one, ten := forecast(1, 14), forecast(10, 140); (ten - one).Abs() > one/10 {
		t.Errorf("the 500th of 14 a minute waits %v, and of 140 at a cost of 10 each %v, want the same", one, ten)
	}
}
