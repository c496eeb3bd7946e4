package throttlesql

import (
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// carried tells take.sql how a key that was found under another limit goes on
// under the new one.
//
// Among buckets, and among windows that end at the same times, it has what
// take.sql needs to carry over any state, so that it does not matter what others
// do to the key meanwhile. By hand it has the state as it was found and as
// [limit.Change] makes it, three numbers each, which take.sql writes if the state
// is still the same.
type carried struct {
	from    string   // the limit, as in the row
	numbers [7]int64 // the last is one of these:
}

const (
	byHand = iota
	amongBuckets
	amongWindows
)

// carryOver carries over what reply found under other limits, for r to be sent
// again. There is nothing to carry over if r must be sent again with the calendar
// window of another time. A limit that this program cannot read is treated as
// equal to the new one.
func (r *request) carryOver(reply *reply) error {
	r.carriedAt = 0
	for _, i := range r.sent {
		r.items[i].carried = nil
	}
	if err := r.readStates(reply); err != nil || reply.under == nil {
		return err
	}
	under := strings.Split(*reply.under, "\n")
	for at, i := range r.sent {
		if at >= len(under) || under[at] == "" {
			continue
		}
		from, err := limit.Parse(under[at], zoneOf)
		if err != nil {
			from = r.asks[i].Limit
		}
		it := &r.items[i]
		it.carried = &carried{under[at], it.limit.carry(prepare(from), it.state, reply.now)}
		if it.carried.numbers[6] == byHand {
			r.carriedAt = reply.now
		}
	}
	return nil
}

// carry returns how a state found under the limit of from goes on.
func (p *prepared) carry(from *prepared, found limit.State, now int64) [7]int64 {
	switch {
	case p.kind == kindBucket && from.kind == kindBucket:
		return [7]int64{from.count, from.period, from.bottom, from.bottomRem, 6: amongBuckets}
	case p.sameWindows(from):
		return [7]int64{double(from.count), 6: amongWindows}
	}
	s := found
	if from.kind != kindSliding {
		s.P = 0 // it says when the row was written
	}
	s = limit.Change(s, time.UnixMicro(now), from.limit, p.limit)
	return [7]int64{s.T, s.N, s.P, found.T, found.N, found.P, byHand}
}

// sameWindows reports whether p and o count in windows that end at the same
// times: then their texts differ in the Count only.
func (p *prepared) sameWindows(o *prepared) bool {
	_, mine, _ := strings.Cut(p.text, "/")
	_, others, _ := strings.Cut(o.text, "/")
	return p.kind == o.kind && p.kind != kindSliding && mine == others
}

// zoneOf returns a time zone of which only the name matters: no window is worked
// out of a limit that is carried over from.
func zoneOf(name string) (*time.Location, error) { return time.FixedZone(name, 0), nil }
