package throttlesql

import (
	"encoding/hex"
	"strconv"

	"github.com/throttle-go/throttle/limit"
)

// chargeArguments returns the arguments of several.sql: the literals of three
// arrays. clock is about the time in PostgreSQL.
func (r *request) chargeArguments(clock int64) (keys, lims, charges string) {
	var k, l, n []byte
	for at, i := range r.sent {
		it := &r.items[i]
		it.charge = it.limit.chargeOf(r.asks[i].N, clock)
		c := &it.charge
		k, l = appendText(k, at, hexOf(it.key)), appendText(l, at, it.limit.text)
		for j, number := range [...]int64{c.cost, c.rem, c.count, c.unit, c.add, c.ahead, c.atMost, c.used, c.from, c.to, it.limit.refill(c.from)} {
			n = appendNumber(n, at+j, number)
		}
	}
	return string(append(k, '}')), string(append(l, '}')), string(append(n, '}'))
}

// takeArguments returns those of take.sql: the literals of four arrays.
func (r *request) takeArguments(clock int64) (keys, lims, olds, numbers string) {
	var k, l, o, n []byte
	for at, i := range r.sent {
		it := &r.items[i]
		k, l = appendText(k, at, hexOf(it.key)), appendText(l, at, it.limit.text)
		if it.carried != nil {
			o = appendText(o, at, it.carried.from)
		} else {
			o = append(appendOpen(o, at), "NULL"...)
		}
		for j, number := range it.numbers(&r.asks[i], r.refused, clock) {
			n = appendNumber(n, at+j, number)
		}
	}
	return string(append(k, '}')), string(append(l, '}')), string(append(o, '}')), string(append(n, '}'))
}

// numbersPerKey is how many numbers take.sql reads for each key.
const numbersPerKey = 24

// numbers returns what take.sql reads of one key:
//
//	 1 kind, 2 N, 3 Min, 4 Debt, 5 Count, 6 Period, 7 twice Count,
//	 8, 9 of a bucket, what N costs; 10, 11 its room; 12, 13 what may be owed
//	 8 to 11 of a calendar window, where it begins and ends, and the next two
//	   end; 12 where to look whether a state is too far ahead: see package limit
//	 8, 9 of slots, their width and number
//	16 to 21 of the limit that it is carried over from: Count, Period, 18 and 19
//	   what may be owed, kind, and whether its windows end at the same times
func (it *item) numbers(a *limit.Ask, peek bool, clock int64) (n [numbersPerKey]int64) {
	p, ask := it.limit, *a
	if peek {
		ask = limit.Ask{}
	}
	copy(n[:], []int64{p.kind, ask.N, ask.Min, 0, p.count, p.period, double(p.count)})
	if ask.Debt {
		n[3] = 1
	}
	switch p.kind {
	case kindBucket:
		n[7], n[8] = costOf(size(ask.N), p.period, p.count)
		copy(n[9:], []int64{p.room, p.roomRem, p.bottom, p.bottomRem})
	case kindCalendar:
		edges := p.edgesAt(clock)
		copy(n[7:], edges[:])
		n[11] = p.far()
	case kindSlots:
		n[7], n[8] = p.slots()
	}
	if it.carried != nil {
		copy(n[15:], it.carried.numbers[:])
	}
	return n
}

// hexOf returns a key as PostgreSQL reads bytes.
func hexOf(key string) string { return `\x` + hex.EncodeToString([]byte(key)) }

// appendOpen appends what comes before element i of the literal of an array.
func appendOpen(b []byte, i int) []byte {
	if i == 0 {
		return append(b, '{')
	}
	return append(b, ',')
}

// appendText appends element i, a text.
func appendText(b []byte, i int, text string) []byte {
	b = append(appendOpen(b, i), '"')
	for j := range len(text) {
		if text[j] == '"' || text[j] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, text[j])
	}
	return append(b, '"')
}

// appendNumber appends element i, a number.
func appendNumber(b []byte, i int, n int64) []byte { return strconv.AppendInt(appendOpen(b, i), n, 10) }
