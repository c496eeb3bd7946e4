//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// costly is an instance whose throughput is measured; %s is its admin section.
const costly = `version: 1
rules: {file: rules.yaml, overlay: overlay.json}
gateway: {listen: "${LISTEN}", routes: {to: "http://${UPSTREAM}"}}
%sdrain: {delay: 0s}
`

// startCostly starts an instance with or without the admin role, which has the page.
func startCostly(t *testing.T, upstream string, admin bool) *gatewayProcess {
	t.Helper()
	section := ""
	if admin {
		section = "admin: {listen: \"${ADMIN}\", token: \"${TOKEN}\"}\n"
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"serve.yaml": fmt.Sprintf(costly, section), "rules.yaml": "rules: [{name: per-client, key: header:X-Client, limits: 1000000/s}, {name: per-address, key: address, limits: 1000000/s}]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := &gatewayProcess{t: t, web: clitest.Vacant(t), admin: clitest.Vacant(t)}
	c := program(t, "serve", filepath.Join(dir, "serve.yaml"))
	c.Env = append(c.Env, "UPSTREAM="+upstream, "LISTEN="+g.web, "ADMIN="+g.admin, "TOKEN="+exampleToken)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	g.pid = c.Process.Pid
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // an error is that it was killed
	eventually(t, "the instance serves", func() bool {
		a, err := http.Get("http://" + g.web + "/")
		if err == nil {
			a.Body.Close()
		}
		return err == nil
	})
	return g
}

// watch reads a stream of the page until the test ends, and counts its ticks.
func (g *gatewayProcess) watch(ticks *atomic.Int64) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	q, _ := http.NewRequestWithContext(ctx, "GET", "http://"+g.admin+"/api/v1/stream", nil)
	q.Header.Set("Authorization", "Bearer "+exampleToken)
	a, err := (&http.Client{Transport: new(http.Transport)}).Do(q)
	if err != nil || a.StatusCode != 200 {
		g.t.Fatal(err, a)
	}
	done := make(chan struct{})
	g.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		defer a.Body.Close()
		for s := bufio.NewScanner(a.Body); s.Scan(); {
			if strings.HasPrefix(s.Text(), "id:") {
				ticks.Add(1)
			}
		}
	}()
}

// rate sends requests of 1,000 clients on 16 connections for a while and returns how
// many were answered a second.
func (g *gatewayProcess) rate(transport http.RoundTripper, d time.Duration) float64 {
	g.t.Helper()
	var n atomic.Int64
	done, end := make(chan error, 16), time.Now().Add(d)
	for range cap(done) {
		go func() {
			done <- func() error {
				for time.Now().Before(end) {
					q, _ := http.NewRequest("GET", "http://"+g.web+"/", nil)
					q.Header.Set("X-Client", fmt.Sprint("client-", rand.IntN(1000)))
					a, err := transport.RoundTrip(q)
					if err != nil {
						return err
					}
					_, err = io.Copy(io.Discard, a.Body)
					a.Body.Close()
					if err != nil || a.StatusCode != 200 {
						return fmt.Errorf("status %d: %v", a.StatusCode, err)
					}
					n.Add(1)
				}
				return nil
			}()
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			g.t.Fatal(err)
		}
	}
	return float64(n.Load()) / d.Seconds()
}

// TestPageSoakCost: a page that nobody watches takes at most a hundredth of the
// throughput of the gateway, and seven streams that watch it at most two: medians of
// rounds of a second, in which there is one tick, in turns of a random order. A second
// instance without the page tells how much of a difference is noise.
func TestPageSoakCost(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") != "1" {
		t.Skip("SOAK NOT RUN: what the page takes of the throughput, three minutes; make soak runs it")
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	to := upstream.Listener.Addr().String()
	all := map[string]*gatewayProcess{"off": startCostly(t, to, false), "off again": startCostly(t, to, false), "nobody": startCostly(t, to, true), "seven": startCostly(t, to, true)}
	var ticks atomic.Int64
	for range 7 {
		all["seven"].watch(&ticks)
	}
	const rounds = 41
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer transport.CloseIdleConnections()
	rates, used, sent := map[string][]float64{}, map[string]time.Duration{}, map[string]float64{}
	names := slices.Sorted(maps.Keys(all))
	for range rounds {
		for _, i := range rand.Perm(len(names)) {
			g, before := all[names[i]], processorTime(all[names[i]].pid)
			rate := g.rate(transport, time.Second)
			rates[names[i]] = append(rates[names[i]], rate)
			used[names[i]] += processorTime(g.pid) - before
			sent[names[i]] += rate
		}
	}
	off := median(append(slices.Clone(rates["off"]), rates["off again"]...))
	t.Logf("off: %.0f requests a second, again: %.3f of the first", off, median(rates["off again"])/median(rates["off"]))
	for _, name := range names { // which others on the machine disturb less
		t.Logf("%s: %.1f µs of processors for each request", name, float64(used[name].Microseconds())/sent[name])
	}
	for name, least := range map[string]float64{"nobody": 0.99, "seven": 0.98} {
		part := median(rates[name]) / off
		if t.Logf("%s: %.3f of it", name, part); part < least {
			t.Errorf("watched by %s it serves %.3f of the requests, want at least %v", name, part, least)
		}
	}
	if n := ticks.Load(); n < 7*rounds {
		t.Errorf("seven streams had %d ticks", n)
	}
}

// processorTime is what a process has had, in steps of 10 ms; 0 where /proc is missing.
func processorTime(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	all := strings.Fields(rest)
	if len(all) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(all[11])
	system, _ := strconv.Atoi(all[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
