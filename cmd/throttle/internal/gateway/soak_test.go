package gateway

import (
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
)

func soak(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("measures; THROTTLE_SOAK=1 runs it")
	}
}

// TestSoakOverload: an upstream with a few workers is called ten times as often
// as it can serve, and goes on serving as much, with little more latency, where
// the gateway knows how many workers there are. Where it learns that, the goodput
// is the same, and the latency is only reported.
func TestSoakOverload(t *testing.T) {
	soak(t)
	const workers, each = 4, 40 * time.Millisecond // 100 a second
	slots := make(chan struct{}, workers)
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		defer func() { <-slots }()
		time.Sleep(each)
	})
	for name, shed := range map[string]Shed{"known": {MaxInFlight: workers + 1, MaxWait: 20 * time.Millisecond}, "learnt": {MaxWait: -1}} {
		e := serve(t, Config{Routes: []Route{{To: []string{to}, Shed: &shed}}, Control: new(admit.Control)})
		url := "http://" + e.addr
		full, _ := offer(t, url, 97, 5*time.Second)
		_, unloaded := offer(t, url, 50, 4*time.Second)
		offer(t, url, 1000, 3*time.Second) // it learns
		served, late := offer(t, url, 1000, 8*time.Second)
		t.Logf("%s: at 97/s of 100/s %.0f/s are served; at 1000/s %.0f/s with p99 %v, unloaded p99 %v", name, full, served, late, unloaded)
		if served < 0.95*full || name == "known" && late > 2*unloaded {
			t.Errorf("%s: goodput %.2f of what is served without overload, p99 %.2f times; want 0.95 and 2", name, served/full, float64(late)/float64(unloaded))
		}
	}
}

// offer sends requests at a rate, whatever becomes of them, and returns how many
// were served a second, and their p99.
func offer(t *testing.T, url string, rate int, d time.Duration) (goodput float64, p99 time.Duration) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 2000, MaxConnsPerHost: 2000}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	var open atomic.Int64
	began := time.Now()
	for sent := 0; time.Since(began) < d; {
		for due := int(time.Since(began).Seconds() * float64(rate)); sent < due; sent++ {
			if open.Load() > 4000 {
				continue
			}
			open.Add(1)
			group.Go(func() {
				defer open.Add(-1)
				at := time.Now()
				r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
				a, err := transport.RoundTrip(r)
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				if a.StatusCode == 200 {
					mu.Lock()
					all = append(all, time.Since(at))
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Millisecond)
	}
	group.Wait()
	took := time.Since(began)
	if len(all) == 0 {
		t.Fatal("nothing was served")
	}
	slices.Sort(all)
	return float64(len(all)) / took.Seconds(), all[len(all)*99/100]
}
