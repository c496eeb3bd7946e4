package recent

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outcome"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/glob"
	"github.com/throttle-go/throttle/rules"
)

// WhatIf compares the decisions of two versions of rules about the recent requests.
type WhatIf struct {
	// Requests counts those that were replayed, from the first to the last.
	Requests int64     `json:"requests"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	// LeftOut counts requests since the start that are not kept, as they were refused
	// by load shedding or a bound in flight, were not decided, are long, or descriptors
	// of Envoy.
	LeftOut int64 `json:"left_out"`
	// Incomplete counts requests that are from before the rules looked at a header
	// field that these do: they are replayed without it.
	Incomplete int64 `json:"incomplete"`
	// Warnings say what makes the result inexact.
	Warnings []string `json:"warnings"`
	// Real counts the decisions at the time; Before those of the rules in use, had all
	// limits been unused at From; After those of the others.
	Real   Real         `json:"real"`
	Before outcome.Side `json:"before"`
	After  outcome.Side `json:"after"`
}

// Real counts the decisions at the time, by whichever rules were in use.
type Real struct {
	Passed  int64            `json:"passed"`
	Refused int64            `json:"refused"`
	Rules   map[string]int64 `json:"rules"` // refusals by rule; "" is a deny list
}

const (
	// longest is how old a request may be to be replayed.
	longest = 10 * time.Minute
	// replayKeys bounds the keys of each side: 6.4 MB.
	replayKeys = 200_000
)

// WhatIf replays the requests of the last ten minutes before now, or as many as there
// is room for, by two versions of rules: those in use, and others. It charges
// nothing, and takes a second at most for each version. If names is true, keys in the
// clear name themselves where the rules do; all others are digests. The error is that
// of ctx, or says why the other rules cannot be replayed.
func (r *Decisions) WhatIf(ctx context.Context, now time.Time, before, after *rules.Compiled, names bool) (*WhatIf, error) {
	r.once.Do(r.setUp)
	was, is := viewOf(before), viewOf(after)
	if was.ipv4 != is.ipv4 || was.ipv6 != is.ipv6 {
		return nil, fmt.Errorf("ipv4_prefix and ipv6_prefix cannot be tried: addresses are kept as hashes, by those in use")
	}
	w := &WhatIf{Warnings: []string{}, Real: Real{Rules: map[string]int64{}}, LeftOut: r.leftOut.Load()}
	back := r.restorer(was, is)
	o := outcome.Options{MaxKeys: replayKeys, Name: func(values string) string {
		if names && !strings.Contains(values, "%01") && !strings.Contains(values, "=fd") {
			return values
		}
		return outcome.Digest(values)
	}}
	result, err := outcome.Compare(ctx, before, after, r.replayed(w, now, back), o)
	if err != nil {
		return nil, err
	}
	w.Requests, w.From, w.To = result.Requests, result.From, result.To
	w.Before, w.After = result.Sides[0], result.Sides[1]
	w.warn(was, is)
	w.warnOfDescriptors(is)
	return w, nil
}

// replayed are the requests in the order of their times.
func (r *Decisions) replayed(w *WhatIf, now time.Time, back *restorer) iter.Seq[rules.Request] {
	at := func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
	all := r.ring.records()
	if known := r.fields.Load(); known != nil { // read after the records, so that it has the fields of each
		back.fields = *known
	}
	slices.SortStableFunc(all, func(a, b []byte) int { return int(at(a) - at(b)) })
	return func(yield func(rules.Request) bool) {
		for _, b := range all {
			if at(b) < now.Add(-longest).UnixMicro() {
				continue
			}
			q := decode(b, back.fields)
			w.Real.add(&q)
			if !back.complete(q.fields) {
				w.Incomplete++
			}
			if !yield(back.restore(&q)) {
				return
			}
		}
	}
}

func (a *Real) add(q *request) {
	if q.passed {
		a.Passed++
		return
	}
	a.Refused++
	a.Rules[q.rule]++
}

// restorer puts values back in place of hashes, where rules have them.
type restorer struct {
	values   map[uint64]string
	address  map[netip.Addr]netip.Addr
	fields   [][]string // see Decisions.fields
	needs    []string   // the fields that the rules look at
	entirely map[int]bool
}

func (r *Decisions) restorer(views ...*view) *restorer {
	back := &restorer{values: map[uint64]string{}, address: map[netip.Addr]netip.Addr{}, entirely: map[int]bool{}}
	for _, v := range views {
		back.needs = append(back.needs, v.fields...)
		for text := range v.literals {
			back.values[maphash.String(r.seed, text)] = text
		}
		bare := view{ipv4: v.ipv4, ipv6: v.ipv6}
		for n := range v.networks {
			if n.IsSingleIP() && (n.Addr().Is4() && v.ipv4 == 32 || n.Addr().Is6() && v.ipv6 == 128) {
				back.address[bare.address(r.seed, n.Addr())] = n.Addr()
			}
		}
	}
	return back
}

// complete reports whether requests with these fields have all that the rules look at.
func (b *restorer) complete(fields int) bool {
	is, known := b.entirely[fields]
	if !known {
		is = !slices.ContainsFunc(b.needs, func(name string) bool { return !slices.Contains(b.fields[fields], name) })
		b.entirely[fields] = is
	}
	return is
}

// restore returns the request for the rules.
func (b *restorer) restore(q *request) rules.Request {
	if a, ok := b.address[q.Address]; ok {
		q.Address = a
	}
	q.Client = b.value(q.values[0])
	q.Header = func(name string) string {
		if i := slices.Index(b.fields[q.fields], name); i >= 0 {
			return b.value(q.values[i+1])
		}
		return ""
	}
	return q.Request
}

// value returns a value, or a text in its place that no pattern matches but "*".
func (b *restorer) value(k kept) string {
	if k.how != hashed {
		return k.text
	}
	if text, ok := b.values[k.hash]; ok {
		return text
	}
	var digits [17]byte
	digits[0] = 1
	for i := range 16 {
		digits[i+1] = 2 + byte(k.hash>>(4*i)&15)
	}
	return string(digits[:])
}

// warnOfDescriptors says first which of the other rules were asked about nothing.
func (w *WhatIf) warnOfDescriptors(is *view) {
	if n := len(is.described); n > 0 {
		w.Warnings = slices.Insert(w.Warnings, 0, fmt.Sprintf("descriptors of Envoy are not kept, so what %s for them would refuse is not known: %s",
			words.Plural(n, "rule", "rules"), words.First(5, is.described)))
	}
}

// warn says what the other rules look at that was hashed.
func (w *WhatIf) warn(was, is *view) {
	say := func(format string, a ...any) { w.Warnings = append(w.Warnings, fmt.Sprintf(format, a...)) }
	for n := range maps.Keys(is.networks) {
		if !was.networks[n] && (!n.IsSingleIP() || n.Addr().Is6() && is.ipv6 < 128 || n.Addr().Is4() && is.ipv4 < 32) {
			say("the network %v is new: addresses were kept as hashes, so it matches none", n)
		}
	}
	for part, all := range is.patterns {
		for _, p := range all {
			if !slices.ContainsFunc(was.patterns[part], func(old glob.Pattern) bool { return slices.Equal(old, p) }) {
				say("the pattern %q of %s is new: values were kept as hashes, so it matches none", strings.Join(p, "*"), part)
			}
		}
	}
	if w.Incomplete > 0 {
		say("%d of the requests are from before the rules looked at all header fields that these do", w.Incomplete)
	}
	slices.Sort(w.Warnings)
	w.Warnings = w.Warnings[:min(len(w.Warnings), 20)]
}
