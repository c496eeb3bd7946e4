//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// tries calls the API of operators, and returns its status and what went wrong.
func (g *gatewayProcess) tries(method, path, body string) (status int, detail string) {
	q, err := http.NewRequest(method, "http://"+g.admin+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	q.Header.Set("Authorization", "Bearer "+exampleToken)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close()
	var p struct{ Detail string }
	err = json.NewDecoder(a.Body).Decode(&p)
	if err != nil {
		return a.StatusCode, err.Error()
	}
	return a.StatusCode, p.Detail
}

// raisedTo is what an instance says of the limit of a client, and of the changes by hand.
func (g *gatewayProcess) raisedTo(client string) (limits int64, overlay string) {
	g.t.Helper()
	var key struct{ Limits []struct{ Max int64 } }
	if err := json.Unmarshal([]byte(g.api("GET", "/api/v1/key?rule=per-client&key="+client, "")), &key); err != nil || len(key.Limits) == 0 {
		g.t.Fatal(err, key)
	}
	return key.Limits[0].Max, g.api("GET", "/api/v1/overlay", "")
}

// TestStoreDiesInRaise kills Redis while a raise waits for it. The answer is one line that
// says so; nothing is raised, in neither instance; and when Redis is back, with what it
// had, both go by that, and the raise can be sent again.
func TestStoreDiesInRaise(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	addr, dir := clitest.Vacant(t), t.TempDir()
	redis := redisServer(t, addr, dir, "--appendonly", "yes", "--appendfsync", "always")
	file, to := patientExample(t), upstream.Listener.Addr().String()
	both := []*gatewayProcess{startInstance(t, file, addr, to), startInstance(t, file, addr, to)}
	raise := func(times int) string {
		return fmt.Sprintf(`{"rule": "per-client", "key": ["acme"], "times": %d, "for": "1h", "why": "test"}`, times)
	}
	agree := func(want int64) {
		t.Helper()
		said := ""
		defer func() {
			if t.Failed() {
				t.Log(said)
			}
		}()
		eventually(t, fmt.Sprint("both instances have the limit ", want), func() bool {
			a, one := both[0].raisedTo("acme")
			b, other := both[1].raisedTo("acme")
			said = fmt.Sprint(a, one, b, other)
			return a == want && b == want && one == other
		})
	}
	both[0].api("PUT", "/api/v1/raise", raise(2))
	agree(40)

	if err := redis.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		status, detail := both[0].tries("PUT", "/api/v1/raise", raise(3))
		answered <- fmt.Sprint(status, " ", detail)
	}()
	select {
	case said := <-answered:
		t.Fatalf("the raise does not wait for the store: %s", said)
	case <-time.After(300 * time.Millisecond): // of real time, in which it is sent
	}
	_ = redis.Process.Kill()
	_ = redis.Wait() // it was killed
	said := <-answered
	t.Log(said)
	if !strings.HasPrefix(said, "503 ") || strings.Contains(said, "\n") || !strings.Contains(said, "redis") || !strings.Contains(said, "send it again") {
		t.Errorf("the store died in a raise, and the answer is %q; want one line with 503, of the store and what to do", said)
	}
	agree(40) // by what they had

	redis = redisServer(t, addr, dir, "--appendonly", "yes", "--appendfsync", "always")
	defer func() { _ = redis.Process.Kill(); _ = redis.Wait() }()
	eventually(t, "the store is back", func() bool {
		for _, g := range both {
			g.passes(1, fmt.Sprint(time.Now().UnixNano()))
		}
		return both[0].store().State == "closed" && both[1].store().State == "closed"
	})
	agree(40)
	both[1].api("PUT", "/api/v1/raise", raise(2))
	agree(80)
	for _, g := range both {
		if err := g.end(); err != nil {
			t.Errorf("it ended by %v: %s", err, g.log)
		}
	}
}
