package memory_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// A Store that is asked at explicit times, long past, decides as one that was asked
// live at those times, for every kind of limit and for several keys at once.
func TestTakeAtIsTakeLive(t *testing.T) {
	limits := []limit.Limit{
		{Count: 5, Period: time.Second, Burst: 9},
		{Kind: limit.FixedWindow, Count: 7, Period: time.Second},
		{Kind: limit.SlidingWindow, Count: 6, Period: time.Second},
		{Kind: limit.SlidingLog, Count: 4, Period: time.Second},
		{Kind: limit.SlidingSlots, Count: 8, Period: time.Second, Slots: 4},
		{Kind: limit.FirstHitWindow, Count: 3, Period: time.Second},
		{Kind: limit.CalendarWindow, Count: 50, Period: time.Minute},
	}
	type step struct {
		at  time.Time
		ask []limit.Ask
		got []limit.Decision
	}
	var steps []step
	bubble.Test(t, func(t *testing.T) {
		var live memory.Store
		random := rand.New(rand.NewPCG(1, 2))
		for range 4000 {
			time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
			ask := make([]limit.Ask, 1+random.IntN(3))
			from := random.IntN(len(limits))
			for i := range ask {
				n := (from + i) % len(limits)
				ask[i] = limit.Ask{Key: strconv.Itoa(n) + "/" + strconv.Itoa(random.IntN(3)), Limit: limits[n], N: 1 + random.Int64N(2)}
			}
			d := make([]limit.Decision, len(ask))
			if _, err := live.Take(t.Context(), ask, d); err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step{time.Now(), ask, d})
		}
	})
	var replayed memory.Store
	refused := 0
	for i, s := range steps {
		d := make([]limit.Decision, len(s.ask))
		if _, err := replayed.TakeAt(s.at.Round(0), s.ask, d); err != nil {
			t.Fatal(err)
		}
		for j := range d {
			if d[j].At.UnixMicro() != s.got[j].At.UnixMicro() {
				t.Fatalf("step %d: At %v, live %v", i, d[j].At, s.got[j].At)
			}
			if d[j].At, s.got[j].At = (time.Time{}), (time.Time{}); d[j] != s.got[j] {
				t.Fatalf("step %d: TakeAt(%+v) = %+v, live %+v", i, s.ask[j], d[j], s.got[j])
			}
			if !d[j].OK {
				refused++
			}
		}
	}
	if refused < 1000 || refused > 6000 {
		t.Errorf("%d refusals compare little", refused)
	}
}

// A time before the first decision counts as that of the first.
func TestTakeAtBeforeTheStart(t *testing.T) {
	var m memory.Store
	at := time.Unix(1_000_000, 0)
	l := limit.Limit{Count: 1, Period: time.Minute}
	for i, test := range []struct {
		at   time.Time
		ok   bool
		wait time.Duration
	}{{at, true, 0}, {at.Add(-time.Hour), false, time.Minute}, {at.Add(30 * time.Second), false, 30 * time.Second}, {at.Add(time.Minute), true, 0}} {
		d := make([]limit.Decision, 1)
		ok, err := m.TakeAt(test.at, []limit.Ask{{Key: "a", Limit: l, N: 1}}, d)
		if err != nil || ok != test.ok || d[0].RetryAfter != test.wait {
			t.Errorf("%d: TakeAt(%v) = %v, %v, wait %v; want %v, wait %v", i, test.at, ok, err, d[0].RetryAfter, test.ok, test.wait)
		}
	}
	if _, err := m.TakeAt(at, make([]limit.Ask, 2), make([]limit.Decision, 1)); err == nil {
		t.Error("TakeAt took slices of different lengths")
	}
}
