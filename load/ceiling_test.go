package load_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
)

const ms = time.Millisecond

var t0 = time.Date(2026, 11, 6, 9, 0, 0, 0, time.UTC)

func TestCeiling(t *testing.T) {
	var c load.Ceiling
	if c.Limit() != 0 || c.Full(1000, 0) || !c.Full(7, 7) || c.Full(6, 7) {
		t.Errorf("the zero value: limit %d, full beside 1000 %t, beside 7 of 7 %t, beside 6 of 7 %t; want no limit but one's own",
			c.Limit(), c.Full(1000, 0), c.Full(7, 7), c.Full(6, 7))
	}
	for i, s := range []struct {
		at          time.Duration
		served      bool
		beside, own int
		limit       int
	}{
		{0, true, 99, 0, 0},           // no limit as long as nothing is refused
		{0, false, 5, 0, 5},           // so many are not one too many
		{1, false, 5, 0, 5},           // left before the limit was lowered
		{500 * ms, true, 4, 0, 5},     // not yet a second
		{1000 * ms, true, 3, 0, 5},    // not in full use
		{1000 * ms, true, 4, 5, 5},    // one's own bound is the lower one
		{1000 * ms, true, 4, 0, 6},    // a step of 1
		{1900 * ms, true, 5, 0, 6},    // not yet a second
		{2000 * ms, true, 5, 0, 8},    // a step of 2
		{3000 * ms, true, 7, 9, 12},   // a step of 4, one's own bound does not cut it
		{3100 * ms, false, 12, 0, 12}, // left before
		{3200 * ms, false, 9, 0, 9},   // a step too far: two seconds
		{4200 * ms, true, 8, 0, 9},
		{5200 * ms, true, 8, 0, 10},
		{5300 * ms, false, 9, 0, 9}, // four seconds
		{9200 * ms, true, 8, 0, 9},
		{9300 * ms, true, 8, 0, 10},
		{10300 * ms, true, 9, 0, 10},
		{13300 * ms, true, 9, 0, 12}, // it held: a step of 2, and a second again
		{14300 * ms, true, 11, 0, 16},
		{14400 * ms, false, 0, 0, 1}, // not below 1
	} {
		now := t0.Add(s.at)
		if s.served {
			c.Served(now, s.beside, s.own)
		} else {
			c.Refused(now, s.beside, 0, 0)
		}
		if c.Limit() != s.limit || c.Full(s.limit, 0) != (s.limit > 0) || c.Full(s.limit-1, 0) {
			t.Fatalf("event %d, %+v: the limit is %d, want %d", i, s, c.Limit(), s.limit)
		}
	}
}

// A limit that stands is tested once a minute in the end.
func TestCeilingPatience(t *testing.T) {
	var c load.Ceiling
	now, refused := t0, 0
	c.Refused(now, 8, 0, 0)
	for range 10 * 60 * 10 { // ten minutes
		now = now.Add(100 * ms)
		if c.Limit() > 8 {
			c.Refused(now, 8, 0, 0)
			refused++
		} else {
			c.Served(now, 7, 0)
		}
	}
	if refused != 14 { // after 1, 2, 4, 8, 16, 32 and then each 60 seconds
		t.Errorf("refused %d times in ten minutes, want 14", refused)
	}
}

func TestCeilingPause(t *testing.T) {
	var c load.Ceiling
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	pause := func(now time.Time, want time.Duration) {
		t.Helper()
		if got := c.Pause(now); got != want {
			t.Errorf("Pause at %v = %v, want %v", now.Sub(t0), got, want)
		}
	}
	pause(t0, 0)
	c.Refused(t0, 3, time.Hour, 0)
	pause(t0, 0) // with others in flight, the end of one is enough
	c.Refused(t0, 0, 0, 0)
	pause(t0, 100*ms)
	pause(at(40*ms), 60*ms)
	c.Refused(at(40*ms), 0, time.Hour, 0.9) // left before the pause began
	pause(at(40*ms), 60*ms)
	pause(at(100*ms), 0)
	pause(at(time.Hour), 0)
	c.Refused(at(100*ms), 0, 0, 0.25)
	pause(at(100*ms), 250*ms)
	c.Refused(at(400*ms), 0, time.Second, 0.5)
	pause(at(400*ms), time.Second) // as the server asked
	now := at(2 * time.Second)
	for range 10 {
		c.Refused(now, 0, 0, 0)
		now = now.Add(c.Pause(now))
	}
	c.Refused(now, 0, 0, 0)
	pause(now, 30*time.Second)
	c.Served(now, 0, 0)
	pause(now, 0)
	c.Refused(now, 0, 0, 0)
	pause(now, 100*ms)
}

// Against a server that serves so many at once, nearly all of it is used, and
// nearly nothing refused.
func TestCeilingFindsTheLimit(t *testing.T) {
	for _, most := range []int{1, 5, 40} {
		var c load.Ceiling
		random := rand.New(rand.NewPCG(1, 2))
		now, begun, served, refused := t0, t0, 0, 0
		var ends []time.Time // of the calls in flight, in order; each takes about 100 ms
		for now.Before(begun.Add(10 * time.Minute)) {
			for c.Pause(now) == 0 && !c.Full(len(ends), 100) {
				if len(ends) >= most {
					refused++
					c.Refused(now, len(ends), 0, random.Float64())
					continue
				}
				end := now.Add(100*ms + time.Duration(random.Int64N(int64(ms))))
				i, _ := slices.BinarySearchFunc(ends, end, time.Time.Compare)
				ends = slices.Insert(ends, i, end)
			}
			now, ends = ends[0], ends[1:]
			served++
			c.Served(now, len(ends), 100)
		}
		if all := 10 * 60 * 10 * most; served < all*98/100 || refused > 20 {
			t.Errorf("at most %d at once: served %d of %d, refused %d; want 98%%, and 20 refused", most, served, all, refused)
		}
	}
}
