package admit

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/internal/timeline"
	"github.com/throttle-go/throttle/store"
)

func TestQuotaStale(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := &database{objects: 5}
		q := Quota{Count: db.count, MaxAge: time.Minute, MaxStale: time.Hour, RetryInterval: 10 * time.Second}
		create(t, &q, 1, 10, true, 6).Done()
		db.fails = errBoom
		time.Sleep(time.Minute)
		create(t, &q, 1, 10, true, 7).Done()
		time.Sleep(9 * time.Second)
		create(t, &q, 4, 10, false, 7)
		if db.loads() != 2 {
			t.Errorf("counted %d times, want 2: no third one after a failure", db.loads())
		}
		time.Sleep(time.Second)
		create(t, &q, 1, 10, true, 8).Cancel()
		if db.loads() != 3 {
			t.Errorf("counted %d times 10 s after a failure, want 3", db.loads())
		}
		time.Sleep(time.Hour)
		for range 3 {
			if c, err := q.Create(t.Context(), "k", 1, 10); c != nil || refusedFor(t, err, store.ErrUndecided).Err != errBoom {
				t.Errorf("Create after all is stale = %+v, %v", c, err)
			}
		}
		db.fails = nil
		time.Sleep(10 * time.Second)
		create(t, &q, 1, 10, true, 6)
		if db.loads() != 5 {
			t.Errorf("counted %d times, want 5", db.loads())
		}
	})
}

// A Count that hangs until its callers leave has not failed, so that no stale count is
// used; one that gives up before they do has.
func TestQuotaCountHangs(t *testing.T) {
	for patience, want := range map[time.Duration]error{time.Hour: context.DeadlineExceeded, time.Second: nil} {
		bubble.Test(t, func(t *testing.T) {
			loads := 0
			q := Quota{MaxStale: time.Hour, Count: func(ctx context.Context, _ string) (int64, error) {
				if loads++; loads == 1 {
					return 5, nil
				}
				ctx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				<-ctx.Done()
				return 0, ctx.Err()
			}}
			create(t, &q, 1, 10, true, 6).Done()
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if _, err := q.Create(ctx, "k", 1, 10); !errors.Is(err, want) {
				t.Errorf("Create, with a Count that hangs for %v: %v, want %v", patience, err, want)
			}
		})
	}
}

// A deletion is not believed while the database is away; nor is it asked in
// vain again and again.
func TestQuotaDeletedWhileAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := &database{objects: 10}
		q := Quota{Count: db.count}
		create(t, &q, 1, 10, false, 10)
		q.Deleted("k", 1)
		db.fails = errBoom
		for range 3 {
			create(t, &q, 1, 10, false, 10)
		}
		if db.loads() != 2 {
			t.Errorf("counted %d times, want 2", db.loads())
		}
	})
}

// Each waits with its own context; the count goes on while anybody waits.
func TestQuotaWaiters(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		type key struct{}
		db := &database{read: time.Second}
		ended := timeline.New()
		q := Quota{Count: func(ctx context.Context, k string) (int64, error) {
			if ctx.Value(key{}) == nil {
				t.Error("the values of the context are lost")
			}
			n, err := db.count(ctx, k)
			if err != nil {
				ended.Note("cancelled")
			}
			return n, err
		}}
		results := timeline.New()
		wait := func(patience time.Duration) {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 1), patience)
			defer cancel()
			switch c, err := q.Create(ctx, "k", 1, 10); {
			case err == nil && c.OK:
				results.Note("created")
			case errors.Is(err, context.DeadlineExceeded):
				results.Note("gave up")
			default:
				t.Errorf("Create = %+v, %v", c, err)
			}
		}
		go wait(200 * ms)
		go wait(300 * ms)
		time.Sleep(400 * ms)
		ended.Check(t, "cancelled", 300*ms)
		go wait(500 * ms)
		go wait(time.Minute)
		time.Sleep(time.Minute)
		results.Check(t, "gave up", 200*ms, 300*ms, 900*ms)
		results.Check(t, "created", 1400*ms)
		if db.counted != 1 {
			t.Errorf("counted %d times, want 1", db.counted)
		}
	})
}

// A Create that comes when a count was cancelled, but has not ended, begins another.
func TestQuotaAfterACancelledLoad(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		calls := 0
		q := Quota{Count: func(ctx context.Context, _ string) (int64, error) {
			calls++
			time.Sleep(time.Second) // deaf
			return 0, ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		if _, err := q.Create(ctx, "k", 1, 10); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Create = %v, want the end of its context", err)
		}
		create(t, &q, 1, 10, true, 1)
		if calls != 2 {
			t.Errorf("counted %d times, want 2", calls)
		}
	})
}

func TestQuotaCountBreaks(t *testing.T) {
	for name, breaks := range map[string]func(){
		"not admitted: could not decide: admit: Count panicked: boom":      func() { panic(errBoom) },
		"not admitted: could not decide: admit: Count ended its goroutine": runtime.Goexit,
	} {
		bubble.Test(t, func(t *testing.T) {
			broken := true
			q := Quota{Count: func(context.Context, string) (int64, error) {
				if broken {
					breaks()
				}
				return 0, nil
			}}
			if _, err := q.Create(t.Context(), "k", 1, 10); err == nil || err.Error() != name {
				t.Errorf("Create = %v, want %s", err, name)
			}
			broken = false
			time.Sleep(time.Second)
			create(t, &q, 1, 10, true, 1)
		})
	}
}

// A Create ends though Count takes longer than a count is used: after the count that
// it came into, and the one that began after it.
func TestQuotaCountSlowerThanMaxAge(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		counts, objects := 0, int64(5)
		q := Quota{MaxAge: time.Second, Count: func(ctx context.Context, _ string) (int64, error) {
			counts++
			return objects, sleep(ctx, 2*time.Second)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		c, err := q.Create(ctx, "k", 1, 6)
		if err != nil || !c.OK || c.Held != 6 || time.Since(began) > 4*time.Second || counts > 2 {
			t.Errorf("Create = %+v, %v after %v and %d counts; want 6 held after two of 2 s", c, err, time.Since(began), counts)
		}
		objects++
		c.Done()
		if c, err := q.Create(ctx, "k", 1, 6); err != nil || c.OK {
			t.Errorf("Create of a seventh = %+v, %v; want a refusal", c, err)
		}
	})
}

// A Create waits for two counts at most, though more is deleted during each of them.
func TestQuotaWaitsForTwoCounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		counts := 0
		var q Quota
		q.Count = func(_ context.Context, key string) (int64, error) {
			counts++
			q.Deleted(key, 1)
			return 10, nil
		}
		create(t, &q, 1, 10, false, 10)
		if counts != 2 {
			t.Errorf("counted %d times, want 2", counts)
		}
	})
}

// A stale count is used until MaxStale after MaxAge, and never where there was none.
func TestQuotaStaleEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := &database{objects: 5}
		q := Quota{Count: db.count, MaxAge: time.Minute, MaxStale: 30 * time.Second}
		create(t, &q, 1, 10, true, 6).Cancel()
		db.fails = errBoom
		time.Sleep(90*time.Second - 1)
		create(t, &q, 1, 10, true, 6).Cancel()
		time.Sleep(time.Nanosecond)
		_, err := q.Create(t.Context(), "k", 1, 10)
		refusedFor(t, err, store.ErrUndecided)
		forever := Quota{Count: db.count, MaxStale: math.MaxInt64}
		_, err = forever.Create(t.Context(), "k", 1, 10)
		refusedFor(t, err, store.ErrUndecided)
	})
}

// Fields below zero mean their defaults.
func TestQuotaFieldsBelowZero(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := new(database)
		q := Quota{Count: db.count, MaxAge: -1, MaxStale: -1, RetryInterval: -1, MaxKeys: -1}
		create(t, &q, 1, 10, true, 1).Cancel()
		time.Sleep(time.Minute - 1)
		create(t, &q, 1, 10, true, 1).Cancel()
		db.fails = errBoom
		for range 3 {
			time.Sleep(time.Second / 2)
			_, err := q.Create(t.Context(), "k", 1, 10)
			refusedFor(t, err, store.ErrUndecided)
		}
		if db.loads() != 3 { // the last after a second
			t.Errorf("counted %d times, want 3: once a minute, and once a second while it fails", db.loads())
		}
	})
}

// A key is no longer in use when its Create was refused, or was given up while Count ran.
func TestQuotaKeysOfThoseRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := &database{objects: 10, read: time.Second}
		q := Quota{Count: db.count, MaxKeys: 1}
		create(t, &q, 1, 10, false, 10)
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if c, err := q.Create(soon, "given up", 1, 11); c != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a Create that is given up = %+v, %v", c, err)
		}
		time.Sleep(time.Second) // Count has ended
		if c, err := q.Create(t.Context(), "another", 1, 11); err != nil || !c.OK {
			t.Errorf("another key with a MaxKeys of 1 = %+v, %v; want room for it", c, err)
		}
	})
}
