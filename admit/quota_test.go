package admit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/store"
)

// database holds the objects of one customer. To count takes time, and tells
// the truth of some instant within it.
type database struct {
	mu         sync.Mutex
	objects    int64
	most       int64         // that there ever were
	read, rest time.Duration // before and after the instant of the truth
	counted    int
	fails      error
}

func (db *database) count(ctx context.Context, _ string) (int64, error) {
	if err := sleep(ctx, db.read); err != nil {
		return 0, err
	}
	db.mu.Lock()
	db.counted++
	n, err := db.objects, db.fails
	db.mu.Unlock()
	if gone := sleep(ctx, db.rest); gone != nil {
		return 0, gone
	}
	return n, err
}

func (db *database) insert(n int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.objects += n
	db.most = max(db.most, db.objects)
}

func (db *database) loads() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.counted
}

// create asks for n, and wants what is given.
func create(t *testing.T, q *Quota, n, most int64, wantOK bool, wantHeld int64) *Creation {
	t.Helper()
	c, err := q.Create(t.Context(), "k", n, most)
	if err != nil || c.OK != wantOK || c.Held != wantHeld {
		t.Fatalf("Create(%d, most %d) = %+v, %v, want OK %v, Held %d", n, most, c, err, wantOK, wantHeld)
	}
	return c
}

// holds checks what q believes.
func holds(t *testing.T, q *Quota, want int64) {
	t.Helper()
	if n, _, _ := q.Held("k"); n != want {
		t.Errorf("Held() = %d, want %d", n, want)
	}
}

// A hundred creators at once: exactly those that there is room for may, and the
// objects are counted once, however long that and everything else takes.
func TestQuotaLetsNoBurstThrough(t *testing.T) {
	for _, there := range []int64{0, 3, 9, 10, 12} {
		for _, read := range []time.Duration{0, 5 * ms, 50 * ms} {
			for _, rest := range []time.Duration{0, 20 * ms, 150 * ms} {
				bubble.Test(t, func(t *testing.T) {
					db := &database{objects: there, most: there, read: read, rest: rest}
					q := Quota{Count: db.count}
					var all sync.WaitGroup
					for i := range 100 {
						all.Go(func() {
							time.Sleep(time.Duration(i%5) * 20 * ms)
							c, err := q.Create(t.Context(), "k", 1, 10)
							defer c.Cancel()
							if err != nil {
								t.Errorf("Create: %v", err)
							}
							if !c.OK {
								return
							}
							time.Sleep(time.Duration(i%7) * 10 * ms)
							db.insert(1)
							time.Sleep(time.Duration(i%3) * 10 * ms)
							c.Done()
						})
					}
					all.Wait()
					if want := max(there, 10); db.objects != want || db.counted != 1 {
						t.Errorf("%d there, count of %v and %v: %d objects after %d counts, want %d after 1",
							there, read, rest, db.objects, db.counted, want)
					}
				})
			}
		}
	}
}

// Objects come and go, counts come often and take long, some fail: there are
// never too many, and in the end all that may be is found free.
func TestQuotaUnderChurn(t *testing.T) {
	for seed := range uint64(30) {
		bubble.Test(t, func(t *testing.T) {
			db := &database{read: 30 * ms, rest: 30 * ms}
			q := Quota{Count: db.count, MaxAge: 100 * ms, MaxStale: 100 * ms, RetryInterval: ms}
			var all sync.WaitGroup
			for w := range uint64(12) {
				all.Go(func() { churn(t, &q, db, rand.New(rand.NewPCG(seed, w))) })
			}
			all.Wait()
			if db.most > 5 || db.most < 5 {
				t.Errorf("seed %d: there were %d objects, want 5 at the most", seed, db.most)
			}
			q.Deleted("k", db.objects)
			db.insert(-db.objects)
			create(t, &q, 5, 5, true, 5)
		})
	}
}

func churn(t *testing.T, q *Quota, db *database, random *rand.Rand) {
	pause := func() { time.Sleep(time.Duration(random.IntN(40)) * ms) }
	mine := 0
	for range 100 {
		pause()
		if mine > 0 && random.IntN(2) == 0 {
			mine--
			db.insert(-1)
			pause()
			q.Deleted("k", 1)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(300))*ms)
		c, err := q.Create(ctx, "k", 1, 5)
		cancel()
		if err != nil || !c.OK {
			continue
		}
		pause()
		if random.IntN(4) == 0 {
			c.Cancel()
			continue
		}
		db.insert(1)
		mine++
		pause()
		c.Done()
	}
}

func TestQuotaOverTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := &database{objects: 3, read: ms}
		q := Quota{Count: db.count}
		holds(t, &q, 0)
		create(t, &q, 2, 10, true, 5).Cancel()
		holds(t, &q, 3)
		c := create(t, &q, 0, 10, true, 4) // zero counts as one
		db.insert(1)
		c.Done()
		c.Done()
		c.Cancel()
		holds(t, &q, 4)
		db.insert(3) // by another process: seen after a minute
		time.Sleep(time.Minute - 2*ms)
		create(t, &q, 1, 4, false, 4)
		if n, age, ok := q.Held("k"); n != 4 || age != time.Minute-ms || !ok {
			t.Errorf("Held() = %d, %v, %v, want 4, %v", n, age, ok, time.Minute-ms)
		}
		time.Sleep(ms)
		create(t, &q, 1, 7, false, 7)
		create(t, &q, 1, 8, true, 8).Done() // most is an argument
		if db.loads() != 2 {
			t.Errorf("counted %d times, want 2", db.loads())
		}
	})
}

// What no count could change is refused without one.
func TestQuotaBadQuestions(t *testing.T) {
	db := new(database)
	q := Quota{Count: db.count}
	for _, c := range [][2]int64{{-1, 10}, {math.MinInt64, 10}, {1, 0}, {1, -1}, {0, 0}, {11, 10}} {
		create(t, &q, c[0], c[1], false, 0).Cancel()
	}
	q.Deleted("k", 5)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := q.Create(dead, "k", 1, 10); c != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Create with a dead context = %+v, %v", c, err)
	}
	if db.counted != 0 {
		t.Errorf("counted %d times, want never", db.counted)
	}
	var c *Creation
	c.Done()
	c.Cancel()
	(&Creation{}).Cancel()
	_, err := new(Quota).Create(t.Context(), "k", 1, 10)
	refusedFor(t, err, store.ErrUndecided)

	huge := Quota{Count: func(context.Context, string) (int64, error) { return math.MaxInt64 - 1, nil }}
	create(t, &huge, 1, math.MaxInt64, true, math.MaxInt64).Done()
	create(t, &huge, math.MaxInt64, math.MaxInt64, false, math.MaxInt64)
	huge.Deleted("k", math.MaxInt64)
	huge.Deleted("k", math.MaxInt64)
	create(t, &huge, 2, math.MaxInt64, false, math.MaxInt64-1)
	negative := Quota{Count: func(context.Context, string) (int64, error) { return -5, nil }}
	create(t, &negative, 10, 10, true, 10)
	create(t, &negative, 1, 10, false, 10)
}

// A deletion makes room after a new count, which happens only if room is wanted.
func TestQuotaDeleted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := &database{objects: 9, read: ms}
		q := Quota{Count: db.count}
		create(t, &q, 1, 10, true, 10).Cancel()
		db.insert(-2)
		q.Deleted("k", 2)
		create(t, &q, 1, 10, true, 10).Cancel()
		create(t, &q, 4, 10, false, 9) // would not fit even so
		if db.loads() != 1 {
			t.Errorf("counted %d times before there is need to, want 1", db.loads())
		}
		create(t, &q, 3, 10, true, 10).Cancel()
		create(t, &q, 4, 10, false, 7)
		if db.loads() != 2 {
			t.Errorf("counted %d times after one deletion, want 2", db.loads())
		}
		db.insert(-1)
		q.Deleted("k", 0) // as 1
		create(t, &q, 4, 10, true, 10).Cancel()
	})
}

// Deletions reported while a count is in flight may be in it or not: who joins
// that one counts once more.
func TestQuotaDeletedDuringALoad(t *testing.T) {
	for told, deleted := range map[int64]int64{0: 1, 3: 3} { // 0 is told as 1
		bubble.Test(t, func(t *testing.T) {
			db := &database{objects: 10, rest: 10 * ms}
			q := Quota{Count: db.count}
			go func() {
				time.Sleep(5 * ms)
				db.insert(-deleted)
				q.Deleted("k", told)
			}()
			create(t, &q, deleted, 10, true, 10)
			if db.counted != 2 {
				t.Errorf("counted %d times, want 2", db.counted)
			}
		})
	}
}

// What is created while a count is in flight is added to it even though it may
// be in it, until it is put right by the next.
func TestQuotaCreatedDuringALoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		read  time.Duration // the truth is told before or after the insert
		done  time.Duration // after the insert
		held  int64         // what is believed then
		loads int           // to find that there is room for one more
	}{
		{"counted", 10 * ms, 0, 2, 3},
		{"not counted", 0, 0, 1, 2},
		{"counted, done later", 10 * ms, 16 * ms, 2, 3},
	} {
		bubble.Test(t, func(t *testing.T) {
			db := new(database)
			q := Quota{Count: db.count, MaxAge: time.Second}
			one := create(t, &q, 1, 2, true, 1)
			time.Sleep(time.Second)
			db.read, db.rest = c.read, 20*ms-c.read
			go func() { // begins the second load
				two, _ := q.Create(t.Context(), "k", 1, 100)
				two.Cancel()
			}()
			time.Sleep(5 * ms)
			db.insert(1)
			time.Sleep(c.done)
			one.Done()
			time.Sleep(20*ms - c.done)
			holds(t, &q, c.held)
			create(t, &q, 1, 2, true, 2).Cancel()
			if db.loads() != c.loads {
				t.Errorf("%s: counted %d times, want %d", c.name, db.loads(), c.loads)
			}
		})
	}
}

// Beyond the bound the key longest unused goes, but none that is in use.
func TestQuotaKeysAreBounded(t *testing.T) {
	counts := map[string]int{}
	q := Quota{MaxKeys: 3, Count: func(_ context.Context, key string) (int64, error) {
		counts[key]++
		return 0, nil
	}}
	use := func(key string) *Creation {
		t.Helper()
		c, err := q.Create(t.Context(), key, 1, 10)
		if err != nil || !c.OK || len(q.keys) > 3 {
			t.Fatalf("Create under %s = %+v, %v, %d remembered", key, c, err, len(q.keys))
		}
		return c
	}
	a := use("a")
	use("b").Cancel()
	use("c").Cancel()
	use("b").Cancel()
	use("d").Cancel() // instead of c
	use("a").Cancel()
	use("b").Cancel()
	use("c").Cancel() // instead of d
	if want := map[string]int{"a": 1, "b": 1, "c": 2, "d": 1}; fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
	b, c := use("b"), use("c")
	_, err := q.Create(t.Context(), "d", 1, 10)
	if refusedFor(t, err, store.ErrUndecided).Err != errAllBusy {
		t.Errorf("Create beyond the bound: %v", err)
	}
	for _, c := range []*Creation{a, b, c} {
		c.Done()
	}
	use("d").Cancel()
	if q.idle.Len() != 3 || len(q.keys) != 3 {
		t.Errorf("%d idle of %d, want 3 of 3", q.idle.Len(), len(q.keys))
	}
}
