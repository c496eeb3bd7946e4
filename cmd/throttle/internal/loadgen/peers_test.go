package loadgen

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// peersRate is offered for peersTime to a server that takes peersTake for each
// request, and stops for peersStall in the middle. Closed loops come to the rate by
// peersAtOnce connections.
const (
	peersRate   = 200
	peersTime   = 10 * time.Second
	peersTake   = 20 * ms
	peersStall  = 2 * time.Second
	peersAtOnce = 4
)

// stalling is a server with a stall; begin starts its clock.
type stalling struct {
	mu    sync.Mutex
	start time.Time
	stall time.Duration
}

func (s *stalling) begin(stall time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start, s.stall = time.Now(), stall
}

// left is how long the stall still lasts.
func (s *stalling) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := time.Since(s.start) - peersTime/2; at >= 0 && at < s.stall {
		return s.stall - at
	}
	return 0
}

func (s *stalling) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(s.left() + peersTake)
	w.WriteHeader(http.StatusOK)
}

// field is what a pattern finds in a text.
func field(text, pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return "?"
}

// short are a rate and a duration with few digits.
func short(rate, p99 string) (string, string) {
	if x, err := strconv.ParseFloat(rate, 64); err == nil {
		rate = fmt.Sprintf("%.0f", x)
	}
	if d, err := time.ParseDuration(p99); err == nil {
		p99 = fmt.Sprintf("%.0f ms", float64(d)/float64(ms))
	}
	return rate, p99
}

// peers run a load generator and return how many requests a second it sent, and its
// p99.
var peers = []struct {
	name, kind string
	run        func(t *testing.T, url string) (rate, p99 string)
}{
	{"throttle find", "open loop", func(t *testing.T, url string) (string, string) {
		g := &Generator{Target: target(t, Request{}, url)}
		r := g.Run(t.Context(), Load{Rate: peersRate, Even: true, Duration: peersTime})
		return fmt.Sprintf("%.0f", float64(r.Sent())/r.Took.Seconds()), r.Latency.P99.String()
	}},
	{"vegeta", "open loop", func(t *testing.T, url string) (string, string) {
		attack := shell(t, fmt.Sprintf("echo 'GET %s' | vegeta attack -rate %d -duration %v | vegeta report -type json", url, peersRate, peersTime))
		var r struct {
			Rate      float64
			Latencies map[string]float64
		}
		if err := json.Unmarshal([]byte(attack), &r); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%.0f", r.Rate), time.Duration(r.Latencies["99th"]).Round(time.Microsecond).String()
	}},
	{"hey", "closed loop, paced", func(t *testing.T, url string) (string, string) {
		out := shell(t, fmt.Sprintf("hey -z %v -c %d -q %d %s", peersTime, peersAtOnce, peersRate/peersAtOnce, url))
		return field(out, `Requests/sec:\s+([0-9.]+)`), field(out, `99%[a-z%]* in ([0-9.]+) secs`) + "s"
	}},
	{"wrk", "closed loop", func(t *testing.T, url string) (string, string) {
		out := shell(t, fmt.Sprintf("wrk -t 1 -c %d -d %v --latency %s", peersAtOnce, peersTime, url))
		return field(out, `Requests/sec:\s+([0-9.]+)`), field(out, `99%\s+([0-9.a-z]+)`)
	}},
}

func shell(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// TestSoakBesidePeers prints what load generators say of the same server, with and
// without a stall: a table of docs/find.md. A fifth of the requests are due in the
// stall.
func TestSoakBesidePeers(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: other load generators, a minute; make soak runs it")
	}
	s := &stalling{}
	server := httptest.NewServer(s)
	defer server.Close()
	table := "| | | requests/s | p99 | requests/s, stall of 2 s | p99, stall of 2 s |\n|---|---|--:|--:|--:|--:|\n"
	for _, p := range peers {
		if name, _, _ := strings.Cut(p.name, " "); name != "throttle" {
			if _, err := exec.LookPath(name); err != nil {
				t.Logf("%s is not installed", name)
				continue
			}
		}
		s.begin(0)
		rate, p99 := short(p.run(t, server.URL))
		s.begin(peersStall)
		rateThen, then := p.run(t, server.URL)
		stalledRate, stalled := short(rateThen, then)
		table += fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", p.name, p.kind, rate, p99, stalledRate, stalled)
		if d, err := time.ParseDuration(then); p.name == "throttle find" && (err != nil || d < peersStall*4/5) {
			t.Errorf("p99 with a stall is %s, want near %v", stalled, peersStall)
		}
	}
	t.Logf("\n%s", table)
}
