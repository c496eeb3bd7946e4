package throttlehttp

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// A server has two windows, and tells in each answer of the one of which the smaller part is left. A
// job is done at the speed of the tighter one, and hardly a request is refused: what remains of
// the one is not taken for the other's.
func TestTwoLimitsToldInTurn(t *testing.T) {
	for _, w := range []*twoWindows{
		{quotas: [2]int{10, 1000}, periods: [2]time.Duration{time.Second, time.Hour}, tell: tellPolicy},
		{quotas: [2]int{10, 1000}, periods: [2]time.Duration{time.Second, time.Hour}, tell: tellTriple},
		{quotas: [2]int{100, 5000}, periods: [2]time.Duration{time.Minute, time.Hour}, tell: tellPolicy},
		{quotas: [2]int{100, 5000}, periods: [2]time.Duration{time.Minute, time.Hour}, tell: tellTriple},
	} {
		bubble.Test(t, func(t *testing.T) {
			const calls = 600
			began := time.Now()
			w.run(t, calls)
			took := time.Since(began)
			least := time.Duration(calls/w.quotas[0]-1) * w.periods[0]
			t.Logf("%v in %v: %v, at least %v; %d refused", w.quotas, w.periods, took, least, w.refused)
			if took > 2*least || w.refused > calls/50 {
				t.Errorf("%v in %v: it took %v and %d were refused, want not twice %v, and a fiftieth", w.quotas, w.periods, took, w.refused, least)
			}
		})
	}
}

// A limit that is raised is used as soon as the answers state it.
func TestLimitThatIsRaised(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := twoWindows{quotas: [2]int{20, 100_000}, periods: [2]time.Duration{10 * time.Second, time.Hour}, tell: tellTriple}
		began := time.Now()
		time.AfterFunc(time.Minute, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.quotas[0] = 200
		})
		w.run(t, 2100) // 120 in the first minute, and 20 a second from then on
		if took := time.Since(began); took > 200*time.Second {
			t.Errorf("it took %v, want a little more than 160 s", took)
		}
	})
}

// twoWindows is a server with two fixed windows.
type twoWindows struct {
	quotas  [2]int
	periods [2]time.Duration
	tell    func(h http.Header, quota, left int, period, reset time.Duration)

	mu      sync.Mutex
	used    [2]int
	began   [2]time.Time
	refused int
}

func (w *twoWindows) run(t *testing.T, calls int) {
	tr := &Transport{Base: &wire{reply: w.reply}}
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			a, err := tr.RoundTrip(to(t, "GET", "https://api.test/x"))
			if err != nil {
				t.Error(err)
				return
			}
			a.Body.Close()
		})
	}
	all.Wait()
}

func (w *twoWindows) reply(int, *http.Request) (*http.Response, error) {
	time.Sleep(25 * time.Millisecond)
	defer time.Sleep(25 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	now, binds, a := time.Now(), 0, answer(200, "fine")
	for i, p := range w.periods {
		if now.Sub(w.began[i]) >= p {
			w.began[i], w.used[i] = now.Truncate(p), 0
		}
	}
	part := func(i int) float64 { return float64(w.used[i]) / float64(w.quotas[i]) }
	if part(1) > part(0) {
		binds = 1
	}
	left := func() int { return w.quotas[binds] - w.used[binds] }
	if left() <= 0 {
		w.refused++
		a = answer(429, "")
	} else {
		w.used[0]++
		w.used[1]++
	}
	w.tell(a.Header, w.quotas[binds], left(), w.periods[binds], w.began[binds].Add(w.periods[binds]).Sub(now))
	return a, nil
}

func tellPolicy(h http.Header, quota, left int, period, reset time.Duration) {
	h.Set("RateLimit", fmt.Sprintf(`"p%v";r=%d;t=%.0f`, quota, left, math.Ceil(reset.Seconds())))
	h.Set("RateLimit-Policy", fmt.Sprintf(`"p%v";q=%d;w=%.0f`, quota, quota, period.Seconds()))
}

func tellTriple(h http.Header, quota, left int, _, reset time.Duration) {
	h.Set("X-RateLimit-Limit", fmt.Sprint(quota))
	h.Set("X-RateLimit-Remaining", fmt.Sprint(left))
	h.Set("X-RateLimit-Reset", fmt.Sprintf("%.0f", math.Ceil(reset.Seconds())))
}
