package throttlesql

import "github.com/throttle-go/throttle/limit"

// numbers are what take.sql reads of one key:
//
//	 1 kind, 2 N, 3 Min, 4 Debt, 5 Count, 6 Period, 7 twice Count,
//	 8, 9 of a bucket, what N costs; 10, 11 its room; 12, 13 what may be owed
//	 8 to 11 of a calendar window, where it begins and ends, and the next two
//	   end; 12 where to look whether a state is too far ahead: see package limit
//	 8, 9 of slots, their width and number
//	16 to 22 how it is to be carried over from another limit: see carry
func (p *prepared) numbers(a *limit.Ask, peek bool, c carry, now int64) (n [numbers]int64) {
	ask := *a
	if peek {
		ask = limit.Ask{}
	}
	copy(n[:], []int64{p.kind, ask.N, ask.Min, 0, p.count, p.period, double(p.count)})
	if ask.Debt {
		n[3] = 1
	}
	switch p.kind {
	case kindBucket:
		n[7], n[8] = worth(size(ask.N), p.period, p.count)
		copy(n[9:], []int64{p.room, p.roomRem, p.bottom, p.bottomRem})
	case kindCalendar:
		edges := p.edgesAt(now)
		copy(n[7:], edges[:])
		n[11] = p.far()
	case kindSlots:
		n[7], n[8] = p.slots()
	}
	copy(n[15:], c.numbers[:])
	return n
}

// far is how far ahead a calendar window may end without a closer look, as
// package limit has it: an eighth less than its Period.
func (p *prepared) far() int64 {
	period := p.limit.Period
	return int64((period - period/8) / 1000)
}

// slots are the width of a slot, in microseconds, and how many make a Period,
// as package limit has them.
func (p *prepared) slots() (width, n int64) {
	n = 10
	if p.limit.Slots > 0 {
		n = min(int64(p.limit.Slots), limit.MaxSlots)
	}
	width = (p.period-1)/n + 1
	return width, (p.period-1)/width + 1
}
