//go:build unix

package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// reload reloads by the API.
func (r *running) reload() {
	r.t.Helper()
	if status, body := r.tryReload(); status >= 300 {
		r.t.Fatalf("reload: %d %s", status, body)
	}
}

// tryReload reloads by the API, and returns its answer.
func (r *running) tryReload() (status int, body string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), "POST", r.admin+"/api/v1/reload", strings.NewReader(`{"why": "a test"}`))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// TestReloadOfGoodAndBad: good files beside bad rules are put into use, and the answer
// does not say that all stays as it was.
func TestReloadOfGoodAndBad(t *testing.T) {
	r := start(t, folder(t, hello, "f.yaml", files, "rules.yaml", twoAnHour), "f.yaml")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	t.Cleanup(other.Close)
	r.write("rules.yaml", "version: v2\nruls: []\n")
	r.write("f.yaml", strings.ReplaceAll(files, "TO", other.URL))
	status, body := r.tryReload()
	if want := "; in place of what is bad, what was in use stays"; status != 422 || !strings.Contains(body, "rules: 2:1: ruls: unknown field; did you mean rules?") || !strings.Contains(body, want) {
		t.Errorf("%d %s, want 422 %s", status, body, want)
	}
	if got := r.statuses(3, "/a/x", "K", "1"); got != "204 204 429" {
		t.Errorf("statuses %s, want those of the new route and the old rules", got)
	}
}

// TestReloadMetrics: the metrics have the version of the files in use and since when it is
// known to be good, and say whether the latest is.
func TestReloadMetrics(t *testing.T) {
	r := start(t, folder(t, hello, "f.yaml", files, "rules.yaml", twoAnHour), "f.yaml")
	good, err := os.ReadFile(filepath.Join(r.dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	metric := func(pattern string) string {
		t.Helper()
		_, text := get(t, r.admin+"/metrics", "Authorization", "Bearer "+token)
		found := regexp.MustCompile(`(?m)^` + pattern + `$`).FindStringSubmatch(scopes.ReplaceAllString(text, "{"))
		if found == nil {
			t.Fatalf("there is no metric %s in\n%s", pattern, text)
		}
		return found[1]
	}
	state := func() (version, ok string) {
		t.Helper()
		return metric(`throttle_config_info{throttle_name="files",throttle_version="(\w+)"} 1`),
			metric(`throttle_config_last_reload_successful{throttle_name="files"} (\d)`)
	}
	age := func() (seconds float64) {
		t.Helper()
		if _, err := fmt.Sscan(metric(`throttle_config_age_seconds{throttle_name="files"} (\S+)`), &seconds); err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	first, _ := state()
	r.write("f.yaml", strings.Replace(string(good), "to:", "too:", 1))
	r.said("not reloaded")
	if version, ok := state(); version != first || ok != "0" {
		t.Errorf("with a bad file: version %s, %s; want %s, 0", version, ok, first)
	}
	written := time.Now()
	r.write("f.yaml", string(good)+"# another one\n")
	r.said("reloaded", "version")
	if version, ok := state(); version == first || ok != "1" {
		t.Errorf("with another file: version %s, %s; want another than %s, 1", version, ok, first)
	}
	if now, most := age(), time.Since(written).Seconds(); now > most {
		t.Errorf("the age is %v s, want at most %v, since it was written", now, most)
	}
}

// TestReloadBesidePage: while a reload waits for a page of rules, files that change are in
// use at once, and the end of the program does not wait for the page.
func TestReloadBesidePage(t *testing.T) {
	asked, hang := make(chan struct{}, 1), make(chan struct{})
	var times atomic.Int64
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if times.Add(1) == 1 {
			fmt.Fprintln(w, "rules: []")
			return
		}
		asked <- struct{}{}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(page.Close)
	t.Cleanup(func() { close(hang) })
	text := strings.Replace(files, "{file: rules.yaml}", "{file: rules.yaml, timeout: 1m, every: 24h, url: '"+page.URL+"'}", 1)
	r := start(t, folder(t, hello, "f.yaml", text, "rules.yaml", twoAnHour), "f.yaml")
	routes, err := os.ReadFile(filepath.Join(r.dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() {
		defer close(answered)
		status, _ := r.tryReload()
		answered <- status
	}()
	<-asked
	r.write("rules.yaml", strings.Replace(twoAnHour, "v1", "v2", 1))
	r.said("new rules", "v2")
	r.write("f.yaml", strings.ReplaceAll(string(routes), "/a/*", "/c/*"))
	r.said("reloaded")
	if got := r.statuses(1, "/c/x", "K", "1"); got != "200" {
		t.Errorf("the new route: %s, want 200", got)
	}
	began := time.Now()
	ended := make(chan int)
	go func() { ended <- r.stop() }()
	if status := <-answered; status != 422 {
		t.Errorf("the reload: %d, want 422", status)
	}
	if code, d := <-ended, time.Since(began); code != 0 || d > 4*time.Second {
		t.Errorf("the program ended with %d after %v, while a page hung", code, d)
	}
}

// forget forgets what was said, and returns how much of it was wrong.
func (r *running) forget() (wrong int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.Contains(line, `"level":"ERROR"`) {
			wrong++
		}
	}
	r.lines = nil
	return wrong
}

// held is what the process holds: bytes and goroutines.
func held() (bytes uint64, goroutines int) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}

var quotas = regexp.MustCompile(`q=([0-9]+)`)

// TestReloadsUnderLoad: 200 reloads of real files of rules and routes, 10,000 with
// THROTTLE_SOAK=1, each in use when the reload is answered, under load. No request is
// dropped; each is decided by rules of one version, those of a route that is there;
// the process holds no more afterwards.
func TestReloadsUnderLoad(t *testing.T) {
	reloads := 200
	if os.Getenv("THROTTLE_SOAK") != "" {
		reloads = 10_000
	}
	dir := folder(t, hello, "f.yaml", files, "rules.yaml", twoAnHour)
	r := start(t, dir, "f.yaml")
	routes, err := os.ReadFile(filepath.Join(dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop()
	var sent, bad atomic.Int64
	version := func(i int) { // both rules of a version have its quota
		q := 1_000_000_000 + i%16
		r.write("rules.yaml", fmt.Sprintf("version: r%d\nrules: [{name: a, limits: %d/day}, {name: b, key: header:K, limits: %d/day}]\n", i, q, q))
		r.write("f.yaml", strings.Replace(string(routes), "/a/*,", fmt.Sprintf("/a/*, timeout: %ds,", 10+i%16), 1))
		r.reload()
		if got := r.policy(t, "last"); len(got) != 2 || got[0][1] != fmt.Sprint(q) {
			t.Fatalf("after reload %d a request is decided by %q, want the quota %d", i, got, q)
		}
	}
	version(0)
	for i := range 2 {
		callers.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(time.Millisecond) { // the reloads need a processor too
				got := r.policy(t, fmt.Sprint(i))
				if sent.Add(1); len(got) != 2 || got[0][1] != got[1][1] {
					bad.Add(1)
				}
			}
		})
	}
	wrong := 0
	var bytes uint64
	var goroutines int
	for i := range reloads {
		if i == reloads/4 {
			bytes, goroutines = held()
		}
		version(i + 1)
		wrong += r.forget()
	}
	if now, n := held(); now > bytes+4<<20 || n > goroutines+20 {
		t.Errorf("after %d reloads it holds %d bytes and %d goroutines, after a quarter of them %d and %d", reloads, now, n, bytes, goroutines)
	}
	t.Logf("%d requests under %d reloads", sent.Load(), reloads)
	if sent.Load() < int64(reloads)/4 || bad.Load() > 0 || wrong > 0 {
		t.Errorf("%d of %d requests were not decided by one version, %d errors were logged", bad.Load(), sent.Load(), wrong)
	}
}

// policy sends a request, and returns the quotas of the limits that it is subject to.
func (r *running) policy(t *testing.T, key string) [][]string {
	q, err := http.NewRequest("GET", r.gateway+"/a/x", nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	q.Header.Set("K", key)
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer a.Body.Close()
	if a.StatusCode != 200 {
		t.Errorf("status %d", a.StatusCode)
	}
	return quotas.FindAllStringSubmatch(a.Header.Get("RateLimit-Policy"), -1)
}
