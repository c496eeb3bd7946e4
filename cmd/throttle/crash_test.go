//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// crashing is a program that is killed and started again, on the same ports and files.
type crashing struct {
	t         *testing.T
	file, web string
	admin     http.Client
	cmd       *exec.Cmd
	log       *bytes.Buffer
	starts    []time.Duration
}

// start starts it, and waits until it is ready.
func (p *crashing) start() {
	p.t.Helper()
	p.cmd, p.log = program(p.t, "serve", p.file), new(bytes.Buffer)
	p.cmd.Stderr = p.log
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for late := began.Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if a, err := p.admin.Get("http://localhost/readyz"); err == nil {
			a.Body.Close()
			if a.StatusCode == 200 {
				break
			}
		}
		if time.Now().After(late) {
			p.kill()
			p.t.Fatalf("it does not get ready: %s", p.log)
		}
	}
	p.starts = append(p.starts, time.Since(began))
}

// kill kills it as a machine without memory does.
func (p *crashing) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// counted is how much of the limit of a rule is used.
func (p *crashing) counted(rule string) int64 {
	p.t.Helper()
	a, err := p.admin.Get("http://localhost/api/v1/key?rule=" + rule)
	if err != nil {
		p.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	var is struct {
		Limits []struct{ Max, Remaining int64 }
	}
	if err != nil || json.Unmarshal(text, &is) != nil || len(is.Limits) != 1 {
		p.t.Fatalf("%v: %s", err, text)
	}
	return is.Limits[0].Max - is.Limits[0].Remaining
}

// callers send requests of many keys until ctx ends.
func (p *crashing) callers(ctx context.Context, sent, passed *atomic.Int64) *sync.WaitGroup {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			client := http.Client{Timeout: 10 * time.Second, Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				n := sent.Add(1)
				q, _ := http.NewRequestWithContext(ctx, "POST", p.web, nil) // POST is not repeated
				q.Header.Set("K", fmt.Sprint(n%1000))
				a, err := client.Do(q)
				if err != nil {
					continue
				}
				a.Body.Close()
				if a.StatusCode == 200 {
					passed.Add(1)
				}
			}
		})
	}
	return &all
}

// written waits until the snapshot is another than it was.
func written(t *testing.T, path string, before os.FileInfo) os.FileInfo {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Microsecond) {
		now, err := os.Stat(path)
		if err == nil && (before == nil || !os.SameFile(before, now)) {
			return now
		}
		if time.Now().After(late) {
			t.Fatalf("no snapshot is written: %v", err)
		}
	}
}

// TestServeKilled: the program is killed under load, in the middle of writing its
// snapshot, and started again: 10 times, 100 with THROTTLE_SOAK=1. Each time it is on
// its port and unix socket again, reads a whole snapshot, and has counted what had
// passed before the one that was finished; with Redis, all that had passed.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"memory:", "redis"} {
		t.Run(strings.Trim(store, ":"), func(t *testing.T) { serveKilled(t, store == "memory:") })
	}
}

func serveKilled(t *testing.T, memory bool) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	dir := t.TempDir()
	snapshot, web, storage := filepath.Join(dir, "counts"), clitest.Vacant(t), ""
	if storage = "{url: 'memory:', snapshot: counts}"; !memory {
		snapshot = ""
		redis := clitest.Vacant(t)
		defer startRedis(t, redis)()
		storage = "{url: 'redis://" + redis + "', away: refuse, deadline: 5s}"
	}
	file := filepath.Join(dir, "serve.yaml")
	text := fmt.Sprintf("version: 1\nstore: %s\nrules: {file: rules.yaml, overlay: overlay.json}\ngateway: {listen: '%s', routes: {to: '%s'}}\nadmin: {listen: 'unix:admin'}\n", storage, web, upstream.URL)
	for name, text := range map[string]string{file: text, filepath.Join(dir, "rules.yaml"): "rules:\n  - {name: all, limits: 100000000/day fixed-window}\n  - {name: each, key: header:K, limits: 1000000/day}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &crashing{t: t, file: file, web: "http://" + web}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(dir, "admin"))
	}}
	p.admin = http.Client{Timeout: 10 * time.Second, Transport: transport}
	p.killAll(snapshot)
}

// killAll kills it again and again, and checks what it has counted after each start.
func (p *crashing) killAll(snapshot string) {
	t, kills := p.t, 10
	if os.Getenv("THROTTLE_SOAK") != "" {
		kills = 100
	}
	p.start()
	least, most := int64(0), int64(0)
	for i := range kills {
		before := p.counted("all")
		if before < least || before > most {
			t.Errorf("after kill %d it has counted %d, want %d to %d", i, before, least, most)
		}
		sent, kept := p.loadAndKill(i, snapshot)
		if least, most = before+kept, before+sent; strings.Contains(p.log.String(), `"level":"ERROR"`) {
			t.Errorf("kill %d: it has logged %s", i, p.log)
		}
		p.start()
	}
	if got := p.counted("all"); got < least || got > most {
		t.Errorf("after the last kill it has counted %d, want %d to %d", got, least, most)
	}
	p.kill()
	t.Logf("%d requests were counted over %d kills; it was ready within %v at most", most, kills, longest(p.starts))
}

// loadAndKill kills it under load: how many requests were sent, and how many of them
// had passed, with a snapshot when the latest of those that are whole was begun.
func (p *crashing) loadAndKill(i int, snapshot string) (_, kept int64) {
	var sent, passed atomic.Int64
	ctx, stop := context.WithCancel(p.t.Context())
	callers := p.callers(ctx, &sent, &passed)
	for passed.Load() < 50 {
		time.Sleep(time.Millisecond)
	}
	if snapshot != "" {
		last, _ := os.Stat(snapshot)
		kept = passed.Load()
		_ = p.cmd.Process.Signal(syscall.SIGUSR1)
		written(p.t, snapshot, last)
		_ = p.cmd.Process.Signal(syscall.SIGUSR1) // the next is cut, or not
		time.Sleep(time.Duration(i%20) * 100 * time.Microsecond)
	}
	p.kill()
	stop()
	callers.Wait()
	if snapshot == "" {
		kept = passed.Load()
	}
	return sent.Load(), kept
}

func longest(all []time.Duration) (most time.Duration) {
	for _, d := range all {
		most = max(most, d)
	}
	return most
}
