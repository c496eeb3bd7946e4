package throttle

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/pace"
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
	served, missed [Classes]int
	worst          [Classes]time.Duration // wait of those served
}

// part is the part of a class that was served.
func (y outcomes) part(class int) float64 {
	return float64(y.served[class]) / float64(y.served[class]+y.missed[class])
}

func newTown(s *Shedder, workers int) *town {
	return &town{
		shedder: s, workers: make(chan struct{}, workers), mean: 100 * ms,
		random: rand.New(rand.NewPCG(1, 2)),
	}
}

// load lets callers come for d, so many of each class a second, at random.
func (w *town) load(d time.Duration, rates [Classes]float64) {
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(w.random.ExpFloat64() / sum * float64(time.Second)))
		class, x := 0, w.random.Float64()*sum
		for x -= rates[0]; x >= 0 && class < Classes-1; x -= rates[class] {
			class++
		}
		work := time.Duration((0.5 + w.random.Float64()) * float64(w.mean))
		w.callers.Go(func() { w.call(class, work) })
	}
}

func (w *town) call(class int, work time.Duration) {
	began := time.Now()
	p, err := w.shedder.Acquire(context.Background(), class)
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
		w.missed[class]++
		return
	}
	w.served[class]++
	w.busy += work
	w.worst[class] = max(w.worst[class], waited)
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
// lowest classes first; the highest hardly notices; and nobody idles.
func TestShedHalfOfAllLoad(t *testing.T) {
	const workers, done = 20, 200.0 // a second
	twice := [Classes]float64{0.6 * done, 0.6 * done, 0.4 * done, 0.4 * done}
	for _, c := range []struct {
		name    string
		shedder *Shedder
		high    float64 // the part of the second class that is served
	}{
		{"fixed", &Shedder{Most: workers}, 0.98},
		{"found", &Shedder{}, 0.94},
		{"little patience", &Shedder{Most: workers, MaxWait: 50 * ms}, 0.88},
		{"short queue", &Shedder{Most: workers, MaxWaiting: 5}, 0.85},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := c.shedder
			w := newTown(s, workers)
			w.load(20*time.Second, twice) // until the number is found
			y, took := w.during(func() { w.load(3*time.Minute, twice) })
			used := y.busy.Seconds() / took.Seconds() / workers
			t.Logf("%s: served %.4f, used %.4f, waits %v, %+v", c.name, [...]float64{y.part(0), y.part(1), y.part(2), y.part(3)}, used, y.worst, s.Stats())
			if y.part(3) < 0.994 {
				t.Errorf("%s: %.2f%% of the critical class served, want 99.4%%", c.name, 100*y.part(3))
			}
			if y.part(2) < c.high || y.part(1) < 0.2 || y.part(1) > 0.5 || y.part(0) > 0.15 {
				t.Errorf("%s: served %.3f of high, %.3f of normal, %.3f of low; want %.2f, a third and almost none", c.name, y.part(2), y.part(1), y.part(0), c.high)
			}
			if used < 0.95 {
				t.Errorf("%s: %.1f%% of the service used, want 95%%", c.name, 100*used)
			}
			if n, most := s.Stats().MaxWaiting, cmp.Or(max(c.shedder.MaxWaiting, 0), 1000); n > most {
				t.Errorf("%s: %d waited at a time, want %d at most", c.name, n, most)
			}
			w.recovers(t, c.name, done)
		})
	}
}

// recovers lets the load fall: after two seconds all classes are served.
func (w *town) recovers(t *testing.T, name string, done float64) {
	t.Helper()
	calm := [Classes]float64{0.15 * done, 0.15 * done, 0.15 * done, 0.15 * done}
	w.load(2*time.Second, calm)
	y, _ := w.during(func() { w.load(time.Minute, calm) })
	w.callers.Wait()
	for class := range Classes {
		if y.part(class) < 0.995 {
			t.Errorf("%s: when the load is 0.6, %.4f of class %d served, want all", name, y.part(class), class)
		}
	}
	if st := w.shedder.Stats(); st.InFlight != 0 || st.Waiting != 0 {
		t.Errorf("%s: in the end %+v, want nobody", name, st)
	}
}

// The number that is found follows the service, when it becomes larger, smaller
// and slower.
func TestShedFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Shedder)
		for _, c := range []struct {
			workers int
			mean    time.Duration
		}{{20, 100 * ms}, {60, 100 * ms}, {8, 100 * ms}, {20, 300 * ms}} {
			w := newTown(s, c.workers)
			w.mean = c.mean
			done := float64(c.workers) / c.mean.Seconds()
			all := [Classes]float64{done / 2, done / 2, done / 2, done / 2}
			w.load(time.Minute, all)
			y, took := w.during(func() { w.load(time.Minute, all) })
			used := y.busy.Seconds() / took.Seconds() / float64(c.workers)
			w.callers.Wait()
			st := s.Stats()
			t.Logf("%d workers: most %d, used %.3f, took %v", c.workers, st.Most, used, st.Took)
			if used < 0.95 || st.Took > 3*c.mean {
				t.Errorf("%d workers of %v: %.1f%% used, one takes %v, Most %d; want 95%% and under %v", c.workers, c.mean, 100*used, st.Took, st.Most, 3*c.mean)
			}
		}
	})
}

// acquire is Acquire, which must pass.
func acquire(t *testing.T, s *Shedder, class int) Pass {
	t.Helper()
	p, err := s.Acquire(context.Background(), class)
	if err != nil {
		t.Fatalf("Acquire(class %d) = %v, want to pass", class, err)
	}
	return p
}

func TestShedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Shedder{Most: 1, MaxWaiting: 4, MaxWait: time.Minute}
		first := acquire(t, s, 0)
		var order []int
		outcome := make([]error, 7)
		enter := func(id, class int) {
			go func() {
				p, err := s.Acquire(context.Background(), class)
				outcome[id] = err
				if err == nil {
					order = append(order, id)
					p.Release()
				}
			}()
			synctest.Wait()
		}
		enter(0, 1)
		enter(1, 0)
		enter(2, 1)
		enter(3, 9) // counts as 3
		enter(4, 0) // full, and nobody is lower
		enter(5, 2) // pushes 1 out
		enter(6, 3) // pushes 2 out, the last of the lowest class
		first.Release()
		first.Release() // once is enough
		synctest.Wait()
		if want := []int{3, 6, 5, 0}; len(order) != 4 || [4]int(order) != [4]int(want) {
			t.Errorf("order of those served %v, want %v", order, want)
		}
		refusedFor(t, outcome[4], ErrFull)
		refusedFor(t, outcome[1], ErrShed)
		refusedFor(t, outcome[2], ErrShed)
		if st := s.Stats(); st.InFlight != 0 || st.Waiting != 0 || st.MaxWaiting != 4 || st.Refused != [Classes]int64{2, 1, 0, 0} {
			t.Errorf("in the end %+v, want nobody, at most 4 waiting, 2 and 1 refused", st)
		}
	})
}

// What cannot be in time is refused at once: its deadline is that of the
// context, or MaxWait.
func TestShedRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Shedder{Most: 1, MaxWait: time.Minute}
		p := acquire(t, s, 0)
		time.Sleep(10 * time.Second) // so long takes one
		p.Release()
		p = acquire(t, s, 0)
		defer p.Release()
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 9*time.Second)
		defer cancel()
		_, err := s.Acquire(ctx, 0)
		if e := refusedFor(t, err, context.DeadlineExceeded); e.Wait != 10*time.Second || !time.Now().Equal(began) {
			t.Errorf("refused after %v with a forecast of %v, want at once and 10s", time.Since(began), e.Wait)
		}
		s.MaxWait = 0 // as long as ten take
		took := time.Now()
		go func() { acquire(t, s, 0).Forget() }()
		time.Sleep(50 * time.Second)
		if st := s.Stats(); st.Waiting != 1 {
			t.Errorf("%d wait after %v, want 1: one takes 10s", st.Waiting, time.Since(took))
		}
		began, s.MaxWait = time.Now(), -1
		_, err = s.Acquire(context.Background(), 3)
		if refusedFor(t, err, context.DeadlineExceeded); !time.Now().Equal(began) {
			t.Errorf("refused after %v though nobody waits, want at once", time.Since(began))
		}
	})
}

// Who has waited too long is not let in, even if nobody has told it yet.
func TestShedTooLate(t *testing.T) {
	s := shedding{fixed: 1, maxWaiting: 9, maxWait: time.Second}
	now := time.Date(2026, 11, 6, 9, 0, 0, 0, time.UTC)
	var a [3]applicant
	for i := range a {
		a[i].turn = make(chan struct{}, 1)
		if err := s.enter(now.Add(time.Duration(i)*600*ms), &a[i]); err != nil {
			t.Fatalf("enter %d = %v", i, err)
		}
	}
	s.done(now.Add(1700*ms), &a[0], true)
	if a[1].granted || a[1].why == nil || !a[2].granted || s.inFlight != 1 || s.waiting != 0 {
		t.Errorf("second granted %t, third %t, %+v; want the third, as the second is too late", a[1].granted, a[2].granted, s)
	}
}

// What higher classes will take is foreseen, for as long as they come.
func TestShedForecast(t *testing.T) {
	s := shedding{fixed: 1, took: 0.1} // ten are done a second
	now := time.Date(2026, 11, 6, 9, 0, 0, 0, time.UTC)
	for i := range 40 { // eight a second
		s.came[2].add(now.Add(time.Duration(i) * time.Second / 8))
	}
	now = now.Add(5 * time.Second)
	for class, want := range []time.Duration{500 * ms, 500 * ms, 100 * ms, 100 * ms} {
		if got := s.forecast(now, class).Round(ms); got != want {
			t.Errorf("forecast for class %d = %v, want %v", class, got, want)
		}
	}
	for range 3 {
		s.came[3].add(now)
	}
	if got := s.forecast(now, 1); got != pace.Never {
		t.Errorf("forecast where higher classes take all = %v, want Never", got)
	}
	if got := s.forecast(now.Add(2*time.Second), 1); got != 100*ms {
		t.Errorf("forecast two seconds after the last came = %v, want 100ms", got)
	}
}

// serve is a service of so many workers that take base each, when it is full.
func (g *gradient) serve(n, workers int, base float64) {
	for range n {
		in := g.allowed(1000)
		g.observe(base*max(1, float64(in)/float64(workers)), in, 1000)
	}
}

func TestGradient(t *testing.T) {
	var g gradient
	for _, c := range []struct {
		n, workers int
		base       float64
	}{{5000, 20, 0.1}, {60000, 200, 0.1}, {20000, 20, 0.1}, {2500, 20, 2}, {10000, 20, 0.02}} {
		g.serve(c.n, c.workers, c.base)
		if got := g.limit; got < 1.1*float64(c.workers) || got > 2*float64(c.workers) {
			t.Errorf("%d workers of %vs: %.1f after %d requests, want between 1.1 and twice as many", c.workers, c.base, got, c.n)
		}
	}
	var idle gradient
	for range 10000 {
		idle.observe(0.1, 3, 1000)
	}
	if idle.limit != gradientStart {
		t.Errorf("with 3 under way the limit becomes %v, want no change", idle.limit)
	}
}

// The end of a context ends the wait, and leaves no hole in the line.
func TestShedCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Shedder{Most: 1, MaxWait: time.Minute}
		p := acquire(t, s, 0)
		ctx, cancel := context.WithCancelCause(context.Background())
		var errs [2]error
		go func() { _, errs[0] = s.Acquire(ctx, 3) }()
		synctest.Wait()
		served := false
		go func() { acquire(t, s, 0).Forget(); served = true }()
		synctest.Wait()
		gone := errors.New("gone")
		cancel(gone)
		synctest.Wait()
		refusedFor(t, errs[0], gone)
		if _, err := s.Acquire(ctx, 3); !errors.Is(err, gone) {
			t.Errorf("Acquire with a context that has ended = %v, want its cause", err)
		}
		time.Sleep(time.Second)
		p.Forget()
		synctest.Wait()
		if st := s.Stats(); !served || st.InFlight != 0 || st.Waiting != 0 || st.Took != 0 {
			t.Errorf("served %t, %+v; want the second served, nobody left, nothing learnt", served, st)
		}
	})
}

// A hundred cancel at random: no permission is lost, none is given twice.
func TestShedRaces(t *testing.T) {
	s := &Shedder{Most: 3, MaxWaiting: 20, MaxWait: time.Second}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration((i*j)%300)*time.Microsecond)
				if p, err := s.Acquire(ctx, i%Classes); err == nil {
					if n := s.Stats().InFlight; n < 1 || n > 3 {
						t.Errorf("%d under way, want 1 to 3", n)
					}
					p.Release()
					p.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if st := s.Stats(); st.InFlight != 0 || st.Waiting != 0 || st.MaxWaiting > 20 {
		t.Errorf("in the end %+v, want nobody left, at most 20 waiting", st)
	}
}

func BenchmarkShedder(b *testing.B) {
	s := &Shedder{Most: 100}
	b.ReportAllocs()
	for b.Loop() {
		p, err := s.Acquire(b.Context(), 1)
		if err != nil {
			b.Fatal(err)
		}
		p.Release()
	}
}
