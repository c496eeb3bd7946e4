//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// fleetAPI is an API that counts its calls, by the proxy that sent them.
type fleetAPI struct {
	mu      sync.Mutex
	limit   limit.Limit
	store   memory.Store
	served  map[string]int // of the first half
	total   int
	refused int
}

func (l *fleetAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := store.Take(r.Context(), &l.store, "all", l.limit, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || !d.OK {
		l.refused++
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	if l.total++; l.total <= fleetCalls {
		l.served[r.Header.Get("Throttle-Egress")]++
	}
}

const fleetCalls = 60 // of each proxy

const fleetFile = `version: 1
store: {url: "redis://${REDIS}", deadline: 5s, instances: 2}
egress:
  listen: ${LISTEN}
  apis: {api: {url: "${API}", rate: 40/s burst 10, fleet: true}}
`

// TestEgressFleet: two proxies divide a limit that is known, by a real Redis: the API refuses next to
// nothing, and each gets its part.
func TestEgressFleet(t *testing.T) {
	redis := clitest.Vacant(t)
	startRedis(t, redis)
	api := &fleetAPI{limit: limit.Limit{Count: 40, Period: time.Second, Burst: 14}, served: map[string]int{}} // 100 ms of slack
	s := httptest.NewServer(api)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "egress.yaml")
	if err := os.WriteFile(file, []byte(fleetFile), 0o600); err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for range 2 {
		listen := clitest.Vacant(t)
		c := program(t, "serve", file)
		c.Env = append(c.Env, "REDIS="+redis, "API="+s.URL, "LISTEN="+listen)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
		eventually(t, "the proxy listens", func() bool {
			a, err := http.Get("http://" + listen + "/throttle/state.json")
			if err == nil {
				a.Body.Close()
			}
			return err == nil
		})
		for range fleetCalls {
			callers.Go(func() {
				a, err := http.Get("http://" + listen + "/api/")
				if err != nil {
					t.Error(err)
					return
				}
				defer a.Body.Close()
				if text, _ := io.ReadAll(a.Body); a.StatusCode != 200 {
					t.Errorf("a call was answered %d: %s", a.StatusCode, text)
				}
			})
		}
	}
	callers.Wait()
	api.mu.Lock()
	defer api.mu.Unlock()
	if api.total != 2*fleetCalls || api.refused > 3 {
		t.Errorf("the API served %d calls and refused %d, want %d and at most 3", api.total, api.refused, 2*fleetCalls)
	}
	for name, n := range api.served {
		if len(api.served) != 2 || n < fleetCalls/5 {
			t.Errorf("of the first %d calls the proxy %s made %d of %v, want at least a fifth", fleetCalls, name, n, api.served)
		}
	}
	t.Logf("refused %d, the first half by %v", api.refused, api.served)
}
