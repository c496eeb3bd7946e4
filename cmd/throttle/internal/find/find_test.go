package find

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestUsage: bad input gets one line that says what would be right, and exit code
// 2.
func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "find: want one URL, such as http://127.0.0.1:3000/, or -- COMMAND"},
		{[]string{"http://a/", "http://b/"}, "find: want one URL"},
		{[]string{"--"}, "find: want either a URL or -- COMMAND"},
		{[]string{"http://127.0.0.1/", "--", "true"}, "find: want either a URL or -- COMMAND"},
		{[]string{"--", "/nowhere/at/all"}, "find: /nowhere/at/all: no such file or directory; want a program after --"},
		{[]string{"--", "nowhere-at-all", "x"}, "find: nowhere-at-all: executable file not found in $PATH; want a program after --"},
		{[]string{"--", "./find_test.go"}, "find: ./find_test.go: permission denied; want a program after --"},
		{[]string{"--", ""}, "want a program after --"},
		{[]string{"127.0.0.1:80"}, "127.0.0.1:80 is not a URL; want one such as"},
		{[]string{"ftp://127.0.0.1/"}, "want a URL with http://, https:// or h2c://"},
		{[]string{"http://127.0.0.1:99999/"}, "http://127.0.0.1:99999/: the port must be a number from 1 to 65535"},
		{[]string{"http:///x"}, "is not a URL"},
		{[]string{"-errors", "100%", "http://127.0.0.1/"}, "want a share below 1, such as 0.1% or 0.001"},
		{[]string{"-errors", "-1%", "http://127.0.0.1/"}, "want a share below 1"},
		{[]string{"-errors", "x", "http://127.0.0.1/"}, "want a share below 1"},
		{[]string{"-p99", "2h", "http://127.0.0.1/"}, "-p99 2h0m0s: must be from 0, for no bound, to 1h"},
		{[]string{"-p99", "-1s", "http://127.0.0.1/"}, "-p99 -1s: must be from 0"},
		{[]string{"-p99", "2s", "-timeout", "1s", "http://127.0.0.1/"}, "-timeout 1s: must be from -p99, which is 2s, to 1h"},
		{[]string{"-at-once", "-1", "http://127.0.0.1/"}, "-at-once -1: must be from 1 to 100000"},
		{[]string{"-at-once", "10", "-concurrency", "-most", "20", "http://127.0.0.1/"}, "-most 20: must be at most the 10 of -at-once"},
		{[]string{"-from", "20", "-most", "10", "http://127.0.0.1/"}, "-from 20: must be at most -most, which is 10"},
		{[]string{"-from", "200000", "http://127.0.0.1/"}, "-from 200000: must be at most -most, which is 100000"},
		{[]string{"-from", "0", "http://127.0.0.1/"}, "-from 0: must be from 0.01 to 10,000,000"},
		{[]string{"-from", "NaN", "http://127.0.0.1/"}, "-from NaN: must be from 0.01"},
		{[]string{"-most", "0", "http://127.0.0.1/"}, "-most 0: must be from 0.01 to 10,000,000"},
		{[]string{"-most", "-1", "http://127.0.0.1/"}, "-most -1: must be from 0.01"},
		{[]string{"-most", "Inf", "http://127.0.0.1/"}, "-most +Inf: must be from 0.01"},
		{[]string{"-failures", "0", "http://127.0.0.1/"}, "-failures 0: must be at least 1"},
		{[]string{"-failures", "-1", "http://127.0.0.1/"}, "-failures -1: must be at least 1"},
		{[]string{"-at-once", "0", "--", "true"}, "-at-once 0: must be from 1 to 100000"},
		{[]string{"-timeout", "0", "http://127.0.0.1/"}, "-timeout 0s: must be above 0, as 1s"},
		{[]string{"-recovery", "2h", "http://127.0.0.1/"}, "-recovery 2h0m0s: must be from 0, for none, to 1h"},
		{[]string{"-recovery", "-1s", "http://127.0.0.1/"}, "-recovery -1s: must be from 0"},
		{[]string{"-H", "x", "http://127.0.0.1/"}, "-H …: want 'Name: value'"},
		{[]string{"-H", "Authorization Bearer secret", "http://127.0.0.1/"}, "-H Authorization…: want 'Name: value'"},
		{[]string{"127.0.0.1:3000?key=secret"}, "(not shown) is not a URL"},
		{[]string{"-head-room", "0", "http://127.0.0.1/"}, "-head-room 0: must be above 0 and at most 99%"},
		{[]string{"-head-room", "99.5%", "http://127.0.0.1/"}, "-head-room 0.995: must be above 0"},
		{[]string{"-requests", "0", "http://127.0.0.1/"}, "-requests 0: must be at least 1"},
		{[]string{"-for", "0", "http://127.0.0.1/"}, "-for 0s: must be above 0"},
		{[]string{"-concurrency", "-for", "20s", "--", "true"}, "-for 20s: too short, as the first of a few dozen trials may take 50s; write 10m or more"},
		{[]string{"-from", "0.1", "-for", "1m", "http://127.0.0.1/"}, "-for 1m: too short, as the first of a few dozen trials may take 2m; write"},
		{[]string{"-requests", "20", "http://127.0.0.1/"}, "-requests 20: too few, as the first of a few dozen trials sends about 50; write 5000 or more"},
		{[]string{"-concurrency", "-requests", "9", "--", "true"}, "-requests 9: too few, as the first of a few dozen trials sends about 50; write"},
		{[]string{"-concurrency", "-scenario", "x.yaml", "http://127.0.0.1/"}, "-scenario is for a search of the rate"},
		{[]string{"-concurrency", "-from", "0.3", "http://127.0.0.1/"}, "-from 0.3: must be from 1 to 10,000,000"},
		{[]string{"-method", "A B", "http://127.0.0.1/"}, "-method \"A B\": is not a method"},
		{[]string{"-d", "@/nowhere", "http://127.0.0.1/"}, "-d: /nowhere: no such file"},
		{[]string{"-d", "x", "--", "true"}, "-d is for a URL, not for a command"},
		{[]string{"-html", "/nowhere/x", "http://127.0.0.1/"}, "-html: cannot write to /nowhere"},
		{[]string{"-html", "-", "-json", "http://127.0.0.1/"}, "only one can go to standard output"},
		{[]string{"http://192.0.2.1/"}, "192.0.2.1 is not this machine, and there is no terminal to ask on; say -yes"},
		{[]string{"http://localhost.example/"}, "localhost.example is not this machine"},
	} {
		stdout, stderr, code := clitest.Play(t.Context(), Run, test.args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("find %q: code %d, %q%q, want 2, ...%q...", test.args, code, stdout, stderr, test.want)
		}
		if strings.Contains(stderr, "secret") {
			t.Errorf("find %q: %q", test.args, stderr)
		}
	}
}

// TestCannotBeLoaded: one line, exit code 1, and nothing more is sent.
func TestCannotBeLoaded(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "http://elsewhere.example/?token=secret", http.StatusFound)
	}))
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{server.URL}, server.URL + ": answers 302 Found to http://elsewhere.example/?…; redirects are not followed"},
		{[]string{gone.URL + "/a?secret=1"}, "/a?…: connection refused; is the service running?"},
		{[]string{"--", "sh", "-c", "exit 3"}, `"sh -c exit 3": exit status 3`},
	} {
		stdout, stderr, code := clitest.Play(t.Context(), Run, test.args...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("find %q: code %d, %q%q, want 1, ...%q...", test.args, code, stdout, stderr, test.want)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestQuestion(t *testing.T) {
	o, err := optionsOf([]string{"-requests", "5000", "-for", "2m", "http://api.example.com:81/x"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.question(), "Load api.example.com:81, until it fails, with up to 5,000 requests in up to 2m?"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
}

// TestOverHTTP runs the whole over loopback, for a moment. How well the machine does
// then is not held.
func TestOverHTTP(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		io.WriteString(w, "ok")
	}))
	defer server.Close()
	dir := t.TempDir()
	page := filepath.Join(dir, "a.html")
	stdout, stderr, code := clitest.Play(t.Context(), Run, "-from", "100", "-most", "100", "-p99", "0", "-errors", "50%",
		"-recovery", "0", "-for", "4s", "-html", page, "-json", server.URL)
	var got object
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 && code != 3 {
		t.Fatalf("code %d, %q, %v\n%s", code, stderr, err, stdout)
	}
	if n := int64(got.Spent.Requests); n < 50 || n != requests.Load()-1 {
		t.Errorf("says %d requests, the server has seen %d and a probe", n, requests.Load()-1)
	}
	if first := got.Trials[0]; first.Rate != 100 || first.Good < 50 || first.Sent != first.Good || got.Curve[0].Trials < 1 {
		t.Errorf("first trial %+v, curve %+v", first, got.Curve)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "</html>") {
		t.Errorf("%s: %v, want ...</html>...", page, err)
	}
}

// TestInterruptedFirst: an interrupt before the first answer is no verdict on the service.
func TestInterruptedFirst(t *testing.T) {
	clitest.Program(t, "sleep")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	soon, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	for _, c := range []struct {
		ctx  context.Context
		args []string
		want string
	}{
		{ctx, []string{server.URL}, "throttle: find: interrupted before " + server.URL + " had answered once\n"},
		{soon, []string{"--", "sleep", "60"}, "throttle: find: interrupted before \"sleep 60\" had ended once\n"},
	} {
		if stdout, stderr, code := clitest.Play(c.ctx, Run, c.args...); code != 1 || stdout != "" || stderr != c.want {
			t.Errorf("find %q: code %d, %q, %q; want 1, %q", c.args, code, stdout, stderr, c.want)
		}
	}
}

// TestInterrupt: it ends at once, with what is known, and exit code 1.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 10 { // the probe, and some of the first trial
			cancel()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	start := time.Now()
	stdout, stderr, code := clitest.Play(ctx, Run, "-from", "100", "-timeout", "1h", "-p99", "10m", server.URL)
	if code != 1 || !strings.Contains(stderr, "find: interrupted after 0 trials") || !strings.Contains(stdout, "none: no trial ended") {
		t.Errorf("code %d, %q, %q, want 1 and interrupted", code, stderr, stdout)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}
