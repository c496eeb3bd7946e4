package pace

import (
	"time"

	"github.com/throttle-go/throttle/pace/internal/schedule"
)

// Fixed paces at a constant rate: the right choice where the limit is known and no other client
// uses it, such as 4 permits a second for Amazon EMR's DescribeCluster. It learns nothing.
//
// After a request that costs c the next one starts c/Rate seconds later, without drift. If its
// actual cost differs, the next starts later or sooner by that much, an hour later at most. Of
// requests that cost 1, the default, at most Burst + Rate × length start in any window; one more
// where the driver was late for a request that waited, as up to one interval is made up for.
type Fixed struct {
	// Rate is the cost a second. If zero or below, there is no limit, and a throttled request
	// rests for 50 to 100 ms before its retry, and twice as long each time, up to 20 s.
	Rate float64
	// Burst is the cost that may start at once after a pause. If zero or below, 1.
	Burst int

	line schedule.Even
	mean float64 // mean cost of the last starts; zero: none
}

var _ Controller = (*Fixed)(nil)

// Wait returns the time until r may start, or until the r.Place-th in line may.
func (f *Fixed) Wait(now time.Time, r Request) time.Duration {
	if r.Place > 0 { // r states its own cost only: those ahead count as the mean
		each := f.mean
		if each == 0 {
			each = charged(r.Cost)
		}
		r.Place = int(min(float64(r.Place-1)*each, 1<<53)) + 1
	}
	return f.line.Wait(now, r.Since, r.Place, schedule.Interval(f.Rate), schedule.Or(f.Burst, 1))
}

// Start takes a place in the schedule.
func (f *Fixed) Start(now time.Time, r Request) {
	interval := schedule.Interval(f.Rate)
	f.line.Start(now, r.Since, interval, schedule.Or(f.Burst, 1))
	cost := charged(r.Cost)
	f.line.Shift(min((cost-1)*interval, float64(schedule.Longest)))
	if f.mean == 0 {
		f.mean = cost
	}
	f.mean += (cost - f.mean) / 8
}

// Observe corrects the charge to the actual cost, and refunds it if nothing was sent. Without a
// Rate, which would pace the retry, a throttled request rests, by a [Backoff] with EqualJitter.
func (f *Fixed) Observe(now time.Time, o Outcome) (rest time.Duration) {
	interval, paid := schedule.Interval(f.Rate), charged(o.Request.Cost)
	switch {
	case o.Sent.IsZero():
		f.line.Shift(-min(paid*interval, float64(schedule.Longest)+interval))
	case o.Cost > 0 && o.Cost != o.Request.Cost:
		// The server or the caller that states it may err, so it is believed only so far.
		room := mostOwed*1e9 - float64(f.line.Wait(now, now, 0, interval, 1))
		f.line.Shift(max(min((charged(o.Cost)-paid)*interval, max(room, 0)), -float64(schedule.Longest)))
	}
	if interval == 0 && o.Verdict == Throttled {
		b := Backoff{Jitter: EqualJitter}
		return b.Delay(o.Request.Try, o.Request.Rest, o.Request.Luck) // as no rate paces the retry
	}
	return 0
}

// charged returns a cost as it is counted: 1 at least.
func charged(cost int64) float64 { return float64(min(max(cost, 1), mostCost)) }
