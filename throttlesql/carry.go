package throttlesql

import (
	"fmt"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// carried tells take.sql how a key that was found under another limit goes on
// under the new one: what it must know of the other limit. It carries over any
// state, so that it does not matter what others do to the key meanwhile.
type carried struct {
	from    string   // the limit, as in the row
	numbers [6]int64 // see numbers.go
}

// carryOver carries over what reply found under other limits, for r to be sent
// again. There is nothing to carry over if r must be sent again with the calendar
// window of another time, or as the fence was just written. It is an error if
// this program cannot read a row.
//
// What was carried over before stays: other processes may write a key that has the
// limit of r now under their own again, and of several keys some always would be.
func (r *request) carryOver(reply *reply) error {
	if err := r.readStates(reply); err != nil || reply.under == nil {
		return err
	}
	under := strings.Split(*reply.under, "\n")
	for at, i := range r.sent {
		if at >= len(under) || under[at] == "" {
			continue
		}
		if what, wrong := strings.CutPrefix(under[at], "!"); wrong {
			return errRow(r.asks[i].Key, what)
		}
		from, err := limit.Parse(under[at], zoneOf)
		if err != nil || !remembers(&from) {
			return errRow(r.asks[i].Key, fmt.Sprintf("it was written under the limit %.80q, which this version cannot read", under[at]))
		}
		r.items[i].carried = &carried{under[at], r.items[i].limit.carry(prepare(from))}
	}
	return nil
}

// errRow returns the error about a key whose row cannot be read.
func errRow(key, what string) error {
	return &Error{Err: fmt.Errorf("the row of the key %.100q cannot be read: %s: if no newer version wrote it, "+
		`delete it (DELETE FROM the Table WHERE key = '\x%x'), and the key starts unused; other keys are not affected`, key, what, short(key))}
}

// carry returns what take.sql must know of the limit of from.
func (p *prepared) carry(from *prepared) [6]int64 {
	same := int64(0)
	if p.sameWindows(from) {
		same = 1
	}
	return [6]int64{from.count, from.period, from.bottom, from.bottomRem, from.kind, same}
}

// sameWindows reports whether the windows of p and o begin and end together. Of
// calendar windows the texts differ in the Count only then.
func (p *prepared) sameWindows(o *prepared) bool {
	if p.kind != kindCalendar {
		return p.kind == o.kind && p.period == o.period
	}
	_, mine, _ := strings.Cut(p.text, "/")
	_, others, _ := strings.Cut(o.text, "/")
	return p.kind == o.kind && mine == others
}

// zoneOf returns a time zone whose name alone matters: no window is worked
// out of a limit that is carried over from.
func zoneOf(name string) (*time.Location, error) { return time.FixedZone(name, 0), nil }
