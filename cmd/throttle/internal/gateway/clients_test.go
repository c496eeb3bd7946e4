package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// redis starts a redis-server and returns its URL.
func redis(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is missing; scripts/need.sh installs it")
	}
	_, port, _ := net.SplitHostPort(clitest.Vacant(t))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	for range 500 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return "redis://127.0.0.1:" + port
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("redis-server does not listen")
	return ""
}

var (
	ofHey    = regexp.MustCompile(`\[200\]\s+(\d+) responses`)
	ofH2load = regexp.MustCompile(`status codes: (\d+) 2xx`)
	ofWrk    = regexp.MustCompile(`(\d+) requests in (?s:.*)Non-2xx or 3xx responses: (\d+)`)
)

// number returns a group of a match; zero if there is none.
func number(m []string, group int) int {
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[group])
	return n
}

// clients are programs that send many requests to a URL, and how many of them
// were served according to what they print.
var clients = []struct {
	name   string
	args   func(url string) []string
	served func(text string) int
}{
	{"curl", func(url string) []string {
		return []string{"-s", "-o", "/dev/null", "-w", "%{http_code}\n", url + "/[1-60]"}
	}, func(text string) int { return strings.Count(text, "200\n") }},
	{"hey", func(url string) []string { return []string{"-n", "400", "-c", "8", url} }, func(text string) int {
		return number(ofHey.FindStringSubmatch(text), 1)
	}},
	{"h2load", func(url string) []string { return []string{"-n", "400", "-c", "2", "-m", "4", url} }, func(text string) int {
		return number(ofH2load.FindStringSubmatch(text), 1)
	}},
	{"wrk", func(url string) []string { return []string{"-t", "1", "-c", "8", "-d", "1s", url} }, func(text string) int {
		m := ofWrk.FindStringSubmatch(text)
		return number(m, 1) - number(m, 2)
	}},
}

// TestTwoInstances: two gateways on one Redis hold a limit together, whatever
// client sends, and over which of them.
func TestTwoInstances(t *testing.T) {
	store := redis(t)
	for _, c := range clients {
		if _, err := exec.LookPath(c.name); err != nil {
			t.Logf("%s is missing: not tried", c.name)
			continue
		}
		hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
		served, warm := make(chan int, 2), 0
		for range 2 {
			r := start(t, hello, "-limit", "50/h by address", "-store", store+"?prefix="+c.name, "-instances", "2", "-away", "refuse")
			for range 3 { // one after the other, so that there is a connection
				if status, _ := r.get("/"); status == 200 {
					warm++
				}
			}
			go func() {
				text, err := exec.CommandContext(t.Context(), c.name, c.args(r.url)...).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v: %s", c.name, err, text)
				}
				served <- c.served(string(text))
			}()
		}
		// Fewer are served where Redis answers too late, as on a busy machine.
		if a, b := <-served, <-served; warm+a+b > 50 || warm+a+b < 10 {
			t.Errorf("%s: %d, %d and %d requests were served, want 50, or fewer where Redis is slow", c.name, warm, a, b)
		}
	}
}
