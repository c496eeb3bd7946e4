package throttlesql

import (
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A carry is how a key that was found under another limit goes on under the one
// asked for, as take.sql is told. Among buckets and among windows that end at
// the same times, it is told what it needs to do it by itself, so that it does
// not matter what others do to the key meanwhile. Else it gets the state as it
// was found and as [limit.Change] makes it, three numbers each, and does it if
// the state is still the same.
type carry struct {
	from    string
	numbers [7]int64 // the last says which it is
}

const (
	byHand = iota
	amongBuckets
	amongWindows
)

// carry is for those keys that were written under another limit. If any is
// carried over by hand, that is right as of the time foundAt. One whose limit
// this program cannot read counts as written under the one asked for.
func (q *question) carry(r *reply) (all map[int]carry, foundAt int64) {
	if r.under == nil {
		return nil, 0 // the calendar has another window: see edgesAt
	}
	all = map[int]carry{}
	under := strings.Split(*r.under, "\n")
	for i, at := range q.sent {
		if i >= len(under) || under[i] == "" {
			continue
		}
		from, err := limit.Parse(under[i], named)
		if err != nil {
			from = q.asks[at].Limit
		}
		c := carry{under[i], q.limits[at].carry(prepare(from), q.states[at], q.at)}
		if c.numbers[6] == byHand {
			foundAt = r.at
		}
		all[at] = c
	}
	return all, foundAt
}

// carry is how a state found under the limit of from goes on.
func (p *prepared) carry(from *prepared, s [4]int64, now time.Time) [7]int64 {
	switch {
	case p.kind == kindBucket && from.kind == kindBucket:
		return [7]int64{from.count, from.period, from.bottom, from.bottomRem, 6: amongBuckets}
	case p.sameWindows(from):
		return [7]int64{double(from.count), 6: amongWindows}
	}
	found := limit.State{T: s[0], N: s[1], P: s[2]}
	c := found
	if from.kind != kindSliding {
		c.P = 0 // it says when the row was written
	}
	c = limit.Change(c, now, from.limit, p.limit)
	return [7]int64{c.T, c.N, c.P, found.T, found.N, found.P, byHand}
}

// sameWindows reports whether p and o count in windows that end at the same
// times: then their texts differ in the Count only.
func (p *prepared) sameWindows(o *prepared) bool {
	_, mine, _ := strings.Cut(p.text, "/")
	_, others, _ := strings.Cut(o.text, "/")
	return p.kind == o.kind && p.kind != kindSliding && mine == others
}

// named stands for a time zone of which only the name matters: of a limit that
// is carried over from, no window is worked out.
func named(zone string) (*time.Location, error) { return time.FixedZone(zone, 0), nil }
