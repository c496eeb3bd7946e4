package pace

import "time"

// Ticket is one call on its way through a Gate, from Enter until Leave, or until
// Done says that it will not be retried. Between calls it may be reused.
type Ticket struct {
	// Owner is for the driver, to find its own data for a ticket that Next returns.
	Owner any
	// Cost is the estimated cost, by the Gate's own limit. If zero or below, 1.
	Cost int64
	// Needs are the other scopes that the call is subject to, no two the same, in the same
	// order for calls that need the same. They must not change while the ticket is inside,
	// except Said before Done.
	Needs []Need
	// Retry, if not nil, replaces Needs for a retry: set before Done, as an answer may name
	// scopes that the call was not known to be subject to.
	Retry []Need
	// Elsewhere, set before Done, says that a limit which is not among Needs refused the try:
	// neither the Gate nor any of Needs slows down for it. Done resets it.
	Elsewhere bool
	// Key names the caller. The tickets of a lane take turns by key (fair queueing), so that
	// a caller with many calls does not keep out one with few. Keys beyond 1000 in a lane
	// share one turn.
	Key string
	// Lane is the index of the lane of the Gate that the ticket waits in. If there is no such
	// lane, lane 0. It must not change while the ticket is inside.
	Lane int
	// Once forbids a retry, however the call ends.
	Once bool
	// Deadline is the latest time for the call to start. If zero, there is none.
	Deadline time.Time
	// End is when the caller stops waiting for the answer, as by the deadline of its context.
	// If zero, never. See [Gate.GivenUp].
	End time.Time
	// Began is when the call really started, for the latency that Gate.Concurrency learns
	// from: set after Next, if the driver called it with an earlier time. If zero, the time
	// of Next, which resets it.
	Began time.Time
	// Forecast is the Gate's last forecast of the wait, set by Enter and Done; Never if
	// unknown. If they refuse the ticket because of its Deadline, or as TooLate, it is how
	// long the wait would have been.
	Forecast time.Duration
	// TooLate reports whether Enter or Done refused the call because, after the wait that they
	// forecast, too little time would be left for an answer before its End.
	TooLate bool
	// Broke reports whether Done gave the call up because the Budget was used up.
	Broke bool
	// TooLarge reports whether Done gave the call up because its refusal showed that it costs
	// more than a limit ever allows: that of the Blocker, or the Gate's own.
	TooLarge bool
	// Blocker is the scope that determines the Forecast. If nil, the Gate's own limit does, or
	// none.
	Blocker *Scope

	request   Request
	entered   time.Time // when Enter put it in line
	arrival   uint64    // number in the order of arrival, kept over retries
	rested    time.Time // when its rest ends
	sent      time.Time
	tries     int
	throttled int
	failed    int
	paid      float64 // tokens of the Budget, for the retry to come or in flight
	at        place
	passed    bool   // another ticket started in its place
	index     [2]int // in its heaps, by their order
	urgent    bool   // it is in its line's heap by End
	flow      *flow  // while in line
	line      *line
}

// place is where a ticket is.
type place uint8

const (
	outside place = iota
	ready         // in line
	resting       // before a retry
	flying        // started
)

// Tries returns how often the call has started since it entered.
func (t *Ticket) Tries() int { return t.tries }

// dearestInLine is the most that one ticket counts for in line. Sums of it fit in an int64, and
// virtual times still tell apart tickets that cost 1, unless weights are far below 1.
const dearestInLine = 1 << 40

// price returns the cost of t in line.
func (t *Ticket) price() int64 { return min(max(t.Cost, 1), dearestInLine) }

// triedOnce returns 1 if t has been tried, else 0.
func (t *Ticket) triedOnce() int { return min(t.tries, 1) }

// late reports whether a wait is known to end after the ticket's Deadline.
func (t *Ticket) late(now time.Time, wait time.Duration) bool {
	return !t.Deadline.IsZero() && wait != Never && wait > t.Deadline.Sub(now)
}

// heap is a binary min-heap of tickets that know their index in it, so that any can be removed.
type heap struct {
	t  []*Ticket
	by order
}

// order is how a heap is ordered.
type order uint8

const (
	byTurn order = iota // a resting ticket by the end of its rest, any other by its arrival
	byEnd
)

func (h *heap) len() int     { return len(h.t) }
func (h *heap) top() *Ticket { return h.t[0] }

func (h *heap) push(t *Ticket) {
	h.t = append(h.t, t)
	t.index[h.by] = len(h.t) - 1
	h.up(len(h.t) - 1)
}

func (h *heap) remove(t *Ticket) {
	i, last := t.index[h.by], len(h.t)-1
	h.swap(i, last)
	h.t[last] = nil
	h.t = h.t[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
}

// oldest returns the first ticket for which ok holds, at index i or below; nil if there is none.
// It looks no further below a ticket for which ok holds.
func (h *heap) oldest(i int, ok func(*Ticket) bool) (first *Ticket) {
	if i >= len(h.t) || ok(h.t[i]) {
		if i < len(h.t) {
			first = h.t[i]
		}
		return first
	}
	first = h.oldest(2*i+1, ok)
	if t := h.oldest(2*i+2, ok); first == nil || t != nil && h.before(t, first) {
		first = t
	}
	return first
}

func (h *heap) before(a, b *Ticket) bool {
	if h.by == byEnd {
		if c := a.End.Compare(b.End); c != 0 {
			return c < 0
		}
	} else if a.at == resting {
		if c := a.rested.Compare(b.rested); c != 0 {
			return c < 0
		}
	}
	return a.arrival < b.arrival
}

func (h *heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.t[i], h.t[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.t) {
			return
		}
		if right := child + 1; right < len(h.t) && h.before(h.t[right], h.t[child]) {
			child = right
		}
		if !h.before(h.t[child], h.t[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *heap) swap(i, j int) {
	h.t[i], h.t[j] = h.t[j], h.t[i]
	h.t[i].index[h.by], h.t[j].index[h.by] = i, j
}
