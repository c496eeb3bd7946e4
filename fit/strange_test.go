package fit_test

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/limit"
)

// odd is what a server and its network do that no Model says. Zero is nothing.
type odd struct {
	stall  float64       // share of the messages that take up to 40 ms longer
	slow   time.Duration // by which refusals are answered later
	lies   float64       // what remains is told so many times, if told
	retry  time.Duration // what refusals tell
	alters time.Duration // after the first request, if above zero, its count changes
	by     float64       // to so many times
	inside int           // a second limit, of requests in flight, if above zero
	also   limit.Limit   // a second limit, if it has a period

	began   time.Time
	altered bool
	refused int // by the second limit
	state   limit.State
}

// refuses reports whether a second limit refuses at the caller's and the server's
// time, and lets the first one change.
func (o *odd) refuses(s *server, now, at time.Time) bool {
	if o.began.IsZero() {
		o.began = now
	}
	if o.alters > 0 && !o.altered && now.Sub(o.began) > o.alters {
		o.altered, s.limit.Count = true, int64(math.Round(float64(s.limit.Count)*o.by))
	}
	ok := o.inside == 0 || s.inside < o.inside
	if ok && o.also.Period > 0 {
		var d limit.Decision
		o.state, d = limit.Take(o.state, at, limit.Ask{Limit: o.also, N: 1})
		ok = d.OK
	}
	if !ok {
		o.refused++
	}
	return !ok
}

// tell makes an answer tell what it is not.
func (o *odd) tell(a *fit.Answer, ok bool) {
	if o.lies != 0 {
		a.Remaining = math.Floor(a.Remaining * o.lies)
	}
	if !ok {
		a.RetryAfter = o.retry
	}
}

// chosen is a server with a limit such as people choose, of the kind of a number.
func chosen(seed uint64) *server {
	r := rand.New(rand.NewPCG(seed, 99))
	period := [...]time.Duration{time.Second, 3 * time.Second, 10 * time.Second}[r.IntN(3)]
	n := math.Round(max(logUniform(r, 2, 60)*period.Seconds(), 5))
	truth := fit.Model{Count: n, Period: period}
	l := limit.Limit{Count: int64(n), Period: period}
	switch seed % 5 {
	case 0:
		truth = fit.Model{Kind: fit.TokenBucket, Rate: n / period.Seconds(), Burst: n}
		l.Burst = int64(n)
	case 1:
		truth.Kind, l.Kind = fit.FixedWindow, limit.FixedWindow
	case 2:
		truth.Kind, truth.FromFirst, l.Kind = fit.FixedWindow, true, limit.FirstHitWindow
	case 3:
		truth.Kind, l.Kind = fit.SlidingLog, limit.SlidingLog
	default:
		truth.Kind, l.Kind = fit.SlidingCounter, limit.SlidingWindow
	}
	s := plain(truth, l)
	s.random = r
	s.delay = time.Duration(logUniform(r, 0.1, 5) * 1e6)
	s.jitter = time.Duration(float64(s.delay) * logUniform(r, 0.05, 1))
	s.hold = time.Duration(logUniform(r, 0.05, 5) * 1e6)
	return s
}

// strange are the oddities by name; each is drawn for a server.
var strange = map[string]func(s *server, r *rand.Rand){
	"busy": func(s *server, _ *rand.Rand) {
		s.delay, s.jitter, s.hold = 150*time.Microsecond, 5*time.Millisecond, 50*time.Microsecond
		s.odd.retry, s.odd.stall = time.Second, 0.1
	},
	"slow":  func(s *server, r *rand.Rand) { s.odd.slow = time.Duration(logUniform(r, 20, 2000) * 1e6) },
	"lies":  func(s *server, r *rand.Rand) { s.told, s.odd.lies = true, 2*r.Float64() },
	"retry": func(s *server, r *rand.Rand) { s.odd.retry = time.Duration(logUniform(r, 1, 60) * 1e9) },
	"changes": func(s *server, r *rand.Rand) {
		s.odd.alters = time.Duration(logUniform(r, 1, 10) * float64(s.limit.Period))
		s.odd.by = [...]float64{0.5, 0.7, 1.4, 2}[r.IntN(4)]
	},
	"in flight": func(s *server, r *rand.Rand) {
		s.odd.inside = int(logUniform(r, 1, 8))
		s.hold = time.Duration(logUniform(r, 10, 100) * 1e6)
	},
	"two": func(s *server, r *rand.Rand) {
		kind := [...]limit.Kind{limit.FixedWindow, limit.TokenBucket}[r.IntN(2)]
		s.odd.also = limit.Limit{Kind: kind, Count: 6 * s.limit.Count, Period: 10 * s.limit.Period}
	},
}

// identifyStrange identifies a server by the budget of 'throttle find -limit'. It is wrong where
// it decides on what the server is not, or on one limit though two refused.
func identifyStrange(name string, seed uint64) (o outcome, wrong bool) {
	s := chosen(seed)
	strange[name](s, s.random)
	o = identify(s, fit.Plan{Requests: 2000, Refusals: 60, Time: 5 * time.Minute, AtOnce: 32})
	kind, params := o.right()
	return o, o.Decided && (!kind || !params || s.odd.refused > 0 || s.odd.altered)
}

// TestIdentifyBusy: a machine that holds messages up by up to 40 ms makes no kind of
// another one, and no queue.
func TestIdentifyBusy(t *testing.T) {
	if raced { // ten times as slow, and there is no concurrency to race
		t.Skip("no goroutine: there is nothing to race")
	}
	for _, seed := range []uint64{5, 16, 25} {
		if o, wrong := identifyStrange("busy", seed); wrong {
			t.Errorf("seed %d, %v: decided %v", seed, o.truth, o.Candidates[0].Model)
		}
	}
}

// TestFewOthersAreNoChange: a bucket of which others take one or two in a hundred is
// decided; what they leave differs by less than a tenth from time to time.
func TestFewOthersAreNoChange(t *testing.T) {
	if raced { // ten times as slow, and there is no concurrency to race
		t.Skip("no goroutine: there is nothing to race")
	}
	for _, seed := range []uint64{9000171, 9500292} {
		o := identify(draw(seed), fit.Plan{})
		if kind, params := o.right(); !o.Decided || !kind || !params {
			t.Errorf("seed %d, %v: decided %t, %v: %s", seed, o.truth, o.Decided, o.Candidates[0].Model, o.Why)
		}
	}
}

// TestQuickBucketIsNoConcurrencyLimit: a bucket that is full again before an answer is back
// refuses beside few that are still inside, which no bound of requests in flight does.
func TestQuickBucketIsNoConcurrencyLimit(t *testing.T) {
	if raced { // ten times as slow, and there is no concurrency to race
		t.Skip("no goroutine: there is nothing to race")
	}
	for _, seed := range []uint64{9000146, 9500064} {
		o := identify(draw(seed), fit.Plan{})
		if kind, params := o.right(); !o.Decided || !kind || !params {
			t.Errorf("seed %d, %v: decided %t, %v: %s", seed, o.truth, o.Decided, o.Candidates[0].Model, o.Why)
		}
	}
}

// hidden are oddities that fit does not tell in general: docs/fit.md names them.
var hidden = []string{"changes", "in flight", "two"}

// TestSoakStrange draws servers that no kind describes, and fails if one in twenty is
// decided wrongly, but for the hidden ones: FIT_SERVERS of each oddity from FIT_FROM on, or of FIT_ODD alone.
func TestSoakStrange(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: servers that no kind describes are NOT identified, minutes; make soak runs it")
	}
	n, from := setting("FIT_SERVERS", 20), setting("FIT_FROM", 0)
	var names []string
	for name := range strange {
		if only := os.Getenv("FIT_ODD"); only == "" || only == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		decided, failed := 0, 0
		for seed := from; seed < from+n; seed++ {
			o, wrong := identifyStrange(name, uint64(seed))
			if o.Decided {
				decided++
			}
			mark := "ok"
			if wrong {
				failed++
				mark = "WRONG"
			}
			t.Logf("%-5s %s %d: [%v] found [%v], decided %t, changed %t, %d refused by another, %d sent, %d refused %s",
				mark, name, seed, o.truth, o.Candidates[0].Model, o.Decided, o.odd.altered, o.odd.refused, o.sent, o.Result.Refused, o.Why)
		}
		t.Logf("%s: of %d decided %d, of these wrong %d", name, n, decided, failed)
		if failed*20 > n && !slices.Contains(hidden, name) {
			t.Errorf("%s: %d of %d are decided wrongly, want at most one in twenty", name, failed, n)
		}
	}
}
