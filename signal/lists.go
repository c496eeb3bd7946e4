package signal

import (
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// This file reads several limits whose numbers stand side by side in the same
// fields, each of a window of its own.

// readLists reads fields such as "600,30000" and "314,27536", or "9;w=1, 499;w=60".
func (r *reader) readLists(first Policy, l *limits) (found bool) {
	left, used := r.list(l.Remaining), r.list(l.Used)
	most, resets := r.list(l.Limit), r.list(l.Reset)
	by, n := l.Remaining, len(left)
	if n == 0 && len(used) == len(most) {
		by, n = l.Used, len(used)
	}
	for i := range n {
		p := first
		if len(most) == n {
			p.Limit, p.Window = count(most[i].value), window(most[i].param("w"))
		}
		if p.Limit == pace.Some(int64(0)) { // what is unlimited is written so beside what is not
			if r.notes != nil {
				r.ignore(l.Limit, most[i].value, "no limit")
			}
			continue
		}
		if len(resets) == n {
			p.Reset = r.span(resets[i].value, l.Is)
		}
		if i < len(l.Windows) {
			p.Window = pace.Some(time.Duration(l.Windows[i]) * time.Second)
		}
		if len(left) == n {
			p.Remaining, p.Window = count(left[i].value), or(p.Window, window(left[i].param("w")))
		} else {
			p.Remaining = pace.Some(max(p.Limit.V-count(used[i].value).V, 0))
		}
		r.complete(&p, l)
		r.take(l, p, by)
		if r.notes != nil {
			r.notePolicy(p, by)
		}
	}
	return n > 0
}

// list is the members of a field that holds several numbers, else nil.
func (r *reader) list(from string) []member {
	text := r.there(from)
	if strings.IndexByte(text, ',') < 0 {
		return nil
	}
	all := parse(text)
	for _, m := range all {
		if m.key != "" || !count(m.value).OK {
			return nil
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// readWindows reads Riot's "20:1,100:120" beside "1:1,5:120", how many in how
// many seconds and how many of them are used, and Path of Exile's, where a third
// number beside the latter is for how many seconds nothing is let in.
func (r *reader) readWindows(l *limits, text string) {
	used := r.there(l.Used)
	if len(text) > maxField || len(used) > maxField {
		return
	}
	for item := range strings.SplitSeq(text, ",") {
		most, per, _ := colons(item)
		p := Policy{Limit: count(most), Window: window(per)}
		if !p.Limit.OK || !p.Window.OK {
			continue
		}
		for item := range strings.SplitSeq(used, ",") {
			n, of, rest := colons(item)
			if count(n).OK && window(of) == p.Window {
				p.Remaining = pace.Some(max(p.Limit.V-count(n).V, 0))
				if d := seconds(rest); d.V > 0 {
					p.Remaining, p.Reset = pace.Some(int64(0)), d
				}
				break
			}
		}
		r.shaped(l, p)
	}
}

// colons is what stands between the colons of an item of readWindows.
func colons(item string) (a, b, c string) {
	a, b, _ = strings.Cut(strings.TrimSpace(item), ":")
	b, c, _ = strings.Cut(b, ":")
	return a, b, c
}
