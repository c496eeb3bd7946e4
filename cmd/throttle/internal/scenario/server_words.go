package scenario

import (
	"fmt"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

func serverInWords(v sim.Server) (t text) {
	if len(v.Gap) > 0 {
		t = gapInWords(v.Gap)
	} else {
		t.add("%s", quotaInWords(sim.Quota{Limit: v.Limit, By: v.By, Costs: v.Costs}))
	}
	if start := v.Start; start.OK && len(v.Gap) == 0 && v.Limit.Kind == limit.TokenBucket && !v.Limit.Unlimited() {
		t.add("At the start %s are there.", words.Whole(start.V))
	}
	if v.Queue >= boundless {
		t.add("What comes too soon waits for its turn.")
	} else if v.Queue > 0 {
		t.add("Of what comes too soon %s wait for their turn, the rest is refused.", words.Whole(v.Queue))
	}
	for _, q := range v.More {
		t.add("And besides: %s", quotaInWords(q))
	}
	if v.Phase > 0 {
		t.add("Its clock is %s ahead.", words.Lasting(v.Phase))
	}
	if v.Nodes > 1 {
		t.add("There are %d nodes, each with its part of that, and a request comes to any of them.", v.Nodes)
	}
	t = append(t, changesInWords(v)...)
	if v.Errors > 0 {
		t.add("%s of what it admits fails for another reason.", percent(v.Errors))
	}
	if v.Final > 0 {
		t.add("%s of it fails for good.", percent(v.Final))
	}
	if v.Plain {
		t.add("Refusals and failures look alike.")
	}
	if v.Down > 0 {
		until := ""
		if len(v.Changes) > 0 { // which states another share, or none
			until = ", until " + words.Lasting(v.Changes[0].At)
		}
		t.add("%s of what it admits comes to a part of it that is down, and answers 503%s.", percent(v.Down), until)
	}
	t = append(t, serviceInWords(v.Service)...)
	t.add("%s", hintsInWords(v.Hints))
	return append(t, blurInWords(v.Blur)...)
}

func gapInWords(gaps []sim.Gap) (t text) {
	for i, g := range gaps {
		if i == 0 {
			t.add("Serves a request if the one before came more than %s ago.", words.Lasting(g.Least))
			continue
		}
		t.add("From request %s on, %s are enough.", words.Whole(g.From), words.Lasting(g.Least))
	}
	return t
}

// quotaInWords is a sentence about a limit.
func quotaInWords(q sim.Quota) string {
	l, what := q.Limit, ""
	if q.Costs {
		what = ", of what calls cost"
	}
	what += [...]string{"", ", for each process", ", for each key"}[q.By]
	count, period := words.Whole(l.Count), words.Lasting(l.Period)
	switch {
	case l.Unlimited():
		return "Has no limit."
	case l.Kind == limit.FixedWindow:
		return fmt.Sprintf("Serves %s in each window of %s, windows aligned to the start%s.", count, period, what)
	case l.Kind == limit.SlidingLog:
		return fmt.Sprintf("Serves %s in any %s: it keeps a sliding log%s.", count, period, what)
	case l.Kind == limit.SlidingWindow:
		return fmt.Sprintf("Serves %s in about any %s: it slides between the counters of two windows%s.", count, period, what)
	case l.Kind == limit.SlidingSlots:
		return fmt.Sprintf("Serves %s in any %s, counted in slots%s.", count, period, what)
	case l.Kind == limit.FirstHitWindow:
		return fmt.Sprintf("Serves %s in each window of %s, which begins with the first request%s.", count, period, what)
	case l.Kind == limit.CalendarWindow:
		return fmt.Sprintf("Serves %s in each %s of the calendar%s.", count, calendarUnit(l.Period), what)
	case l.Count == 0:
		return fmt.Sprintf("A token bucket of %s that is never refilled%s.", words.Whole(l.Burst), what)
	}
	return fmt.Sprintf("A token bucket: %s come in, and at most %s are kept%s.", rateInWords(l.Kind, l.Count, l.Period), words.Whole(l.Max()), what)
}

func serviceInWords(w sim.Service) (t text) {
	if w.Time == 0 {
		return t
	}
	t.add("It works on a request for %s.", lastsInWords(words.Lasting(w.Time), w.Spread, w.Tail))
	switch {
	case w.Queue > 0:
		t.add("It works on %s at a time; %s more wait, the rest is refused.", words.Whole(int64(w.AtOnce)), words.Whole(int64(w.Queue)))
	case w.Queue < 0:
		t.add("It works on %s at a time; the others wait.", words.Whole(int64(w.AtOnce)))
	case w.AtOnce > 0:
		t.add("It works on %s at a time, and refuses the rest.", words.Whole(int64(w.AtOnce)))
	}
	if p := w.Pause; p.Every > 0 {
		t.add("Every %s it stops for %s.", words.Lasting(p.Every), words.Lasting(p.Length))
	}
	if w.Slow.Share > 0 {
		t.add("%s of it takes %g times as long.", percent(w.Slow.Share), w.Slow.Times)
	}
	for _, s := range w.Speeds {
		if s.Times == 1 {
			t.add("From %s on work takes that long again.", words.Lasting(s.At))
			continue
		}
		t.add("From %s on work takes %g times as long as that.", words.Lasting(s.At), s.Times)
	}
	return t
}

func blurInWords(b sim.Blur) (t text) {
	if b.Missing > 0 {
		t.add("%s of the answers say nothing.", percent(b.Missing))
	}
	if b.Stale > 0 {
		t.add("What remains is looked up again only when it is %s old.", words.Lasting(b.Stale))
	}
	return t
}

func hintsInWords(h sim.Hints) string {
	var said []string
	for _, hint := range []struct {
		on   bool
		what string
	}{
		{h.Remaining, "how many requests remain"},
		{h.RetryAfter, "when to try again"},
		{h.Reset, "when all is back"},
		{h.Full, "when the bucket is full again, with its size"},
		{h.Policy, "what the limit is"},
		{h.Share, "what the fair part of a process is"},
		{h.Crowded, "when too many come at once"},
	} {
		if hint.on {
			said = append(said, hint.what)
		}
	}
	if len(said) == 0 {
		return "Its answers say nothing about the limit."
	}
	return "Its answers say " + words.Enumerate(said) + "."
}
