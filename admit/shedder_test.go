package admit

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
)

// town is a service of so many workers, and its callers. All is in a bubble.
type town struct {
	shedder *Shedder
	workers chan struct{}
	mean    time.Duration // of the work, which is from half to one and a half of it
	random  *rand.Rand
	callers sync.WaitGroup

	mu sync.Mutex
	outcomes
}

// outcomes are what happened.
type outcomes struct {
	busy           time.Duration // of all workers
	served, missed [load.Priorities]int
	worst          [load.Priorities]time.Duration // wait of those served
}

// part is the part of one priority that was served.
func (y outcomes) part(index int) float64 {
	return float64(y.served[index]) / float64(y.served[index]+y.missed[index])
}

func newTown(s *Shedder, workers int) *town {
	return &town{
		shedder: s, workers: make(chan struct{}, workers), mean: 100 * ms,
		random: rand.New(rand.NewPCG(1, 2)),
	}
}

// load lets callers come for d, so many of each priority a second, at random.
func (w *town) load(d time.Duration, rates [load.Priorities]float64) {
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(w.random.ExpFloat64() / sum * float64(time.Second)))
		index, x := 0, w.random.Float64()*sum
		for x -= rates[0]; x >= 0 && index < load.Priorities-1; x -= rates[index] {
			index++
		}
		work := time.Duration((0.5 + w.random.Float64()) * float64(w.mean))
		w.callers.Go(func() { w.call(index, work) })
	}
}

func (w *town) call(index int, work time.Duration) {
	began := time.Now()
	p, err := w.shedder.Acquire(context.Background(), load.Low+load.Priority(index))
	waited := time.Since(began)
	if err == nil {
		w.workers <- struct{}{}
		time.Sleep(work)
		<-w.workers
		p.Release()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.missed[index]++
		return
	}
	w.served[index]++
	w.busy += work
	w.worst[index] = max(w.worst[index], waited)
}

// during is what happens while f runs, and for how long that is.
func (w *town) during(f func()) (y outcomes, took time.Duration) {
	w.mu.Lock()
	w.outcomes = outcomes{}
	w.mu.Unlock()
	began := time.Now()
	f()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outcomes, time.Since(began)
}

// Offered twice what can be done, for minutes: half of it is shed, of the
// lowest priorities first; the highest hardly notices; and none idles.
func TestShedHalfOfAllLoad(t *testing.T) {
	const workers, done = 20, 200.0 // a second
	twice := [load.Priorities]float64{0.6 * done, 0.6 * done, 0.4 * done, 0.4 * done}
	for _, c := range []struct {
		name    string
		shedder *Shedder
		high    float64 // the part of High that is served
	}{
		{"fixed", &Shedder{MaxInFlight: workers}, 0.98},
		{"found", &Shedder{}, 0.94},
		{"little patience", &Shedder{MaxInFlight: workers, MaxWait: 50 * ms}, 0.88},
		{"short queue", &Shedder{MaxInFlight: workers, MaxWaiting: 5}, 0.85},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := c.shedder
			w := newTown(s, workers)
			w.load(20*time.Second, twice) // until the number is found
			y, took := w.during(func() { w.load(3*time.Minute, twice) })
			used := y.busy.Seconds() / took.Seconds() / workers
			t.Logf("%s: served %.4f, used %.4f, waits %v, %+v", c.name, [...]float64{y.part(0), y.part(1), y.part(2), y.part(3)}, used, y.worst, s.Stats())
			if y.part(3) < 0.994 {
				t.Errorf("%s: %.2f%% of Critical served, want 99.4%%", c.name, 100*y.part(3))
			}
			if y.part(2) < c.high || y.part(1) < 0.2 || y.part(1) > 0.5 || y.part(0) > 0.15 {
				t.Errorf("%s: served %.3f of high, %.3f of normal, %.3f of low; want %.2f, a third and almost none", c.name, y.part(2), y.part(1), y.part(0), c.high)
			}
			if used < 0.95 {
				t.Errorf("%s: %.1f%% of the service used, want 95%%", c.name, 100*used)
			}
			if n, most := s.Stats().PeakWaiting, cmp.Or(max(c.shedder.MaxWaiting, 0), 1000); n > most {
				t.Errorf("%s: %d waited at a time, want %d at most", c.name, n, most)
			}
			w.recovers(t, c.name, done)
		})
	}
}

// recovers lets the load fall: after two seconds all priorities are served.
func (w *town) recovers(t *testing.T, name string, done float64) {
	t.Helper()
	calm := [load.Priorities]float64{0.15 * done, 0.15 * done, 0.15 * done, 0.15 * done}
	w.load(2*time.Second, calm)
	y, _ := w.during(func() { w.load(time.Minute, calm) })
	w.callers.Wait()
	for index := range load.Priorities {
		if y.part(index) < 0.995 {
			t.Errorf("%s: when the load is 0.6, %.4f of priority %d served, want all", name, y.part(index), index)
		}
	}
	if st := w.shedder.Stats(); st.InFlight != 0 || st.Waiting != 0 {
		t.Errorf("%s: in the end %+v, want none", name, st)
	}
}

// The number that is found follows the service, when it becomes larger, smaller
// and slower.
func TestShedFinds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(Shedder)
		for _, c := range []struct {
			workers int
			mean    time.Duration
		}{{20, 100 * ms}, {60, 100 * ms}, {8, 100 * ms}, {20, 300 * ms}} {
			w := newTown(s, c.workers)
			w.mean = c.mean
			done := float64(c.workers) / c.mean.Seconds()
			all := [load.Priorities]float64{done / 2, done / 2, done / 2, done / 2}
			w.load(2*time.Minute, all) // in one of a hundred runs a change of speed costs it the first
			y, took := w.during(func() { w.load(time.Minute, all) })
			used := y.busy.Seconds() / took.Seconds() / float64(c.workers)
			w.callers.Wait()
			st := s.Stats()
			t.Logf("%d workers: most %d, used %.3f, took %v", c.workers, st.Limit, used, st.Took)
			if used < 0.95 || st.Took > 3*c.mean {
				t.Errorf("%d workers of %v: %.1f%% used, one takes %v, Most %d; want 95%% and under %v", c.workers, c.mean, 100*used, st.Took, st.Limit, 3*c.mean)
			}
		}
	})
}

// acquire is Acquire, which must pass.
func acquire(t *testing.T, s *Shedder, priority load.Priority) Pass {
	t.Helper()
	p, err := s.Acquire(context.Background(), priority)
	if err != nil {
		t.Fatalf("Acquire(%v) = %v, want to pass", priority, err)
	}
	return p
}

func TestShedOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &Shedder{MaxInFlight: 1, MaxWaiting: 4, MaxWait: time.Minute}
		first := acquire(t, s, load.Low)
		var order []int
		outcome := make([]error, 7)
		enter := func(id int, priority load.Priority) {
			go func() {
				p, err := s.Acquire(context.Background(), priority)
				outcome[id] = err
				if err == nil {
					order = append(order, id)
					p.Release()
				}
			}()
			synctest.Wait()
		}
		enter(0, load.Normal)
		enter(1, load.Low)
		enter(2, 0)             // counts as Normal
		enter(3, 9)             // counts as Critical
		enter(4, load.Low)      // full, and none is lower
		enter(5, load.High)     // pushes 1 out
		enter(6, load.Critical) // pushes 2 out, the last of the lowest priority
		first.Release()
		first.Release() // once is enough
		synctest.Wait()
		if want := []int{3, 6, 5, 0}; len(order) != 4 || [4]int(order) != [4]int(want) {
			t.Errorf("order of those served %v, want %v", order, want)
		}
		refusedFor(t, outcome[4], ErrQueueFull)
		refusedFor(t, outcome[1], ErrShed)
		refusedFor(t, outcome[2], ErrShed)
		if st := s.Stats(); st.InFlight != 0 || st.Waiting != 0 || st.PeakWaiting != 4 || st.Refused != [load.Priorities]int64{2, 1, 0, 0} {
			t.Errorf("in the end %+v, want none, at most 4 waiting, 2 and 1 refused", st)
		}
	})
}

// What cannot be in time is refused at once: its deadline is that of the
// context, or MaxWait.
func TestShedRefusesAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &Shedder{MaxInFlight: 1, MaxWait: time.Minute}
		p := acquire(t, s, load.Low)
		time.Sleep(10 * time.Second) // so long takes one
		p.Release()
		p = acquire(t, s, load.Low)
		defer p.Release()
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 9*time.Second)
		defer cancel()
		_, err := s.Acquire(ctx, load.Low)
		if e := refusedFor(t, err, context.DeadlineExceeded); e.Wait != 10*time.Second || !time.Now().Equal(began) {
			t.Errorf("refused after %v with a forecast of %v, want at once and 10s", time.Since(began), e.Wait)
		}
		s.MaxWait = 0 // as long as ten take
		took := time.Now()
		go func() { acquire(t, s, load.Low).Forget() }()
		time.Sleep(50 * time.Second)
		if st := s.Stats(); st.Waiting != 1 {
			t.Errorf("%d wait after %v, want 1: one takes 10s", st.Waiting, time.Since(took))
		}
		began, s.MaxWait = time.Now(), -1
		_, err = s.Acquire(context.Background(), load.Critical)
		if refusedFor(t, err, context.DeadlineExceeded); !time.Now().Equal(began) {
			t.Errorf("refused after %v though none waits, want at once", time.Since(began))
		}
	})
}

// The end of a context ends the wait, and leaves no hole in the line.
func TestShedCancel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &Shedder{MaxInFlight: 1, MaxWait: time.Minute}
		p := acquire(t, s, load.Low)
		ctx, cancel := context.WithCancelCause(context.Background())
		var errs [2]error
		go func() { _, errs[0] = s.Acquire(ctx, load.Critical) }()
		synctest.Wait()
		served := false
		go func() { acquire(t, s, load.Low).Forget(); served = true }()
		synctest.Wait()
		gone := errors.New("gone")
		cancel(gone)
		synctest.Wait()
		refusedFor(t, errs[0], gone)
		if _, err := s.Acquire(ctx, load.Critical); !errors.Is(err, gone) {
			t.Errorf("Acquire with a context that has ended = %v, want its cause", err)
		}
		time.Sleep(time.Second)
		p.Forget()
		synctest.Wait()
		if st := s.Stats(); !served || st.InFlight != 0 || st.Waiting != 0 || st.Took != 0 {
			t.Errorf("served %t, %+v; want the second served, none left, nothing learnt", served, st)
		}
	})
}

// A hundred cancel at random: no permission is lost, none is given twice.
func TestShedRaces(t *testing.T) {
	s := &Shedder{MaxInFlight: 3, MaxWaiting: 20, MaxWait: time.Second}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration((i*j)%300)*time.Microsecond)
				if p, err := s.Acquire(ctx, load.Low+load.Priority(i%load.Priorities)); err == nil {
					if n := s.Stats().InFlight; n < 1 || n > 3 {
						t.Errorf("%d in flight, want 1 to 3", n)
					}
					p.Release()
					p.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if st := s.Stats(); st.InFlight != 0 || st.Waiting != 0 || st.PeakWaiting > 20 {
		t.Errorf("in the end %+v, want none left, at most 20 waiting", st)
	}
}

func BenchmarkShedder(b *testing.B) {
	s := &Shedder{MaxInFlight: 100}
	b.ReportAllocs()
	for b.Loop() {
		p, err := s.Acquire(b.Context(), load.Normal)
		if err != nil {
			b.Fatal(err)
		}
		p.Release()
	}
}
