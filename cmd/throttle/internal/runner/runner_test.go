package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
	"github.com/throttle-go/throttle/pace"
)

// TestBadFlags: what is wrong is one line, and nothing is run.
func TestBadFlags(t *testing.T) {
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		t.Setenv(name, "past.example")
	}
	for in, want := range map[string]string{
		"":                                 "run: -- is missing; write 'throttle run -host HOST -- COMMAND ARGS'",
		"-host h true":                     "run: -- is missing",
		"-host h --":                       "run: no command after --; write",
		"-- true":                          "run: -host is missing; write the host of the API that is called, as in -host api.github.com",
		"-host h more -- true":             "run: more is too much before --; write",
		"-host https://h -- true":          "run: -host https://h: want a host alone, as api.example.com, without https:// and without a path",
		"-host com -- true":                "run: -host com: is a public suffix",
		"-host a.example,,b -- true":       `run: -host "": the host is missing`,
		"-host a.example,A.EXAMPLE. -- x":  "run: -host A.EXAMPLE.: occurs twice",
		"-host past.example -- true":       "run: -host past.example: programs go past the proxy, as NO_PROXY is past.example; take the host out of that",
		"-host h -rate 4 -- true":          `run: -rate "4": has no `,
		"-host h -rate 0/s -- true":        "run: -rate 0/s: must be a rate above zero",
		"-host h -account X -- true":       "run: -account X: must be like header:Authorization",
		"-host h -account header:a:b -- x": "run: -account a:b: must be the name of a header field",
		"-host h -dialect nope -- true":    "run: -dialect nope: is not known; known are ",
		"-host h -most -1 -- true":         "run: -most -1: must not be below zero",
		"-host h -wait 0s -- true":         "run: -wait 0s: must be above zero",
		"-host h -listen x -- true":        "run: flag -listen is not known; run 'throttle run -h'",
	} {
		out, errs, code := clitest.Play(t.Context(), Run, strings.Fields(in)...)
		if code != 2 || out != "" || !strings.HasPrefix(errs, "throttle: "+want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("throttle run %s: code %d, %s\ngot  %swant throttle: %s", in, code, out, errs, want)
		}
	}
	if out, _, code := clitest.Play(t.Context(), Run, "-h"); code != 0 || !strings.Contains(out, "-- python job.py\n") {
		t.Errorf("help: code %d\n%s", code, out)
	}
}

// TestContextEnds: an end of the context that is no signal terminates the program.
func TestContextEnds(t *testing.T) {
	clitest.Program(t, "sh")
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, errs, code := clitest.Play(ctx, Run, "-q", "-host", "h.example", "--", "sh", "-c", "exec sleep 60"); code != 143 && code != 1 || errs != "" && code == 143 {
		t.Errorf("code %d, %s; want 143", code, errs)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the run leaves %v, %v", left, err)
	}
}

// TestNeverRun: of a program that was not run nothing else is said, as how many calls it made.
func TestNeverRun(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	out, errs, code := clitest.Play(ended, Run, "-host", "h.example", "--", "job")
	if want := "throttle: run: interrupted before job was run\n"; code != 1 || out != "" || errs != want {
		t.Errorf("code %d, %s%s; want 1, %s", code, out, errs, want)
	}
}

// TestAnyHost: each host that a program may call can be listed.
func TestAnyHost(t *testing.T) {
	clitest.Program(t, "true")
	t.Setenv("TMPDIR", t.TempDir())
	long := strings.Repeat("long.", 40) + "example"
	for _, hosts := range []string{"[2001:db8::1]", "[2001:db8::1]:8443,[2001:db8::2]:8443", "throttle", long, long + "," + long + ":8443"} {
		if _, errs, code := clitest.Play(t.Context(), Run, "-q", "-host", hosts, "--", "true"); code != 0 || errs != "" {
			t.Errorf("-host %s: code %d, %s", hosts, code, errs)
		}
	}
}

// TestProxyVariables: NO_PROXY stays, with loopback besides, unless that is paced.
func TestProxyVariables(t *testing.T) {
	for _, c := range []struct {
		own          []string
		host         string
		upper, lower string
	}{
		{nil, "h.example", "localhost,127.0.0.1,::1", "localhost,127.0.0.1,::1"},
		{nil, "127.0.0.1:8443", "localhost,::1", "localhost,::1"},
		{[]string{"NO_PROXY=a", "NO_PROXY=b"}, "localhost", "b,127.0.0.1,::1", "b,127.0.0.1,::1"},
		{[]string{"NO_PROXY=a", "no_proxy=c"}, "[::1]", "a,localhost,127.0.0.1", "c,localhost,127.0.0.1"},
	} {
		host, err := intercept.ParseHost(c.host)
		if err != nil {
			t.Fatal(err)
		}
		got := environment{c.own}.proxy("URL", []intercept.Target{host})
		want := []string{"HTTP_PROXY=URL", "HTTPS_PROXY=URL", "http_proxy=URL", "https_proxy=URL", "NO_PROXY=" + c.upper, "no_proxy=" + c.lower, "NODE_USE_ENV_PROXY=1"}
		if !slices.Equal(got, want) {
			t.Errorf("%v, %s: %q, want %q", c.own, c.host, got, want)
		}
	}
	for own, want := range map[string]string{"https_proxy=x": "https_proxy", "HTTPS_PROXY=": "", "ALL_PROXY=x": "ALL_PROXY", "HTTP_PROXYX=x": ""} {
		if got := (environment{[]string{own}}).unused(); got != want {
			t.Errorf("of %s, %q is not used; want %q", own, got, want)
		}
	}
}

// TestTrust: each variable names the authorities that its program trusted before, and the new
// one after them.
func TestTrust(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("OLD\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := intercept.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c, err := intercept.NewCertificate(key, []string{"h.example"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	vars, err := environment{[]string{"CURL_CA_BUNDLE=" + old, "NODE_EXTRA_CA_CERTS=" + old, "GIT_SSL_CAINFO="}}.trust(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	own := read(t, filepath.Join(dir, intercept.CertificateFile))
	got := map[string]string{}
	for _, v := range vars {
		name, file, _ := strings.Cut(v, "=")
		text := read(t, file)
		if !strings.HasSuffix(text, own) || strings.Contains(text, "PRIVATE") {
			t.Errorf("%s: %s; want the certificate at its end", v, text)
		}
		got[name] = strings.TrimSpace(strings.TrimSuffix(text, own))
	}
	for _, name := range []string{"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"} {
		if got[name] != "OLD" {
			t.Errorf("%s: before it is %.40q, want OLD", name, got[name])
		}
	}
	for _, name := range []string{"SSL_CERT_FILE", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE"} {
		if _, ok := got[name]; !ok || got[name] == "OLD" {
			t.Errorf("%s: %t, before it is %.40q; want the authorities of the system", name, ok, got[name])
		}
	}
	if _, err := (environment{[]string{"AWS_CA_BUNDLE=" + dir + "/none"}}).trust(dir, c); err == nil || !strings.Contains(err.Error(), "AWS_CA_BUNDLE: open "+dir+"/none: ") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTally: a refusal is absorbed unless its call is given up with it.
func TestTally(t *testing.T) {
	var c tally
	refused := throttle.Throttled(errors.New("429"), 0)
	for _, e := range []throttle.Event{
		{Kind: throttle.Starts, Try: 1},
		{Kind: throttle.Ends, Try: 1, Report: pace.Report{Verdict: pace.Throttled}},
		{Kind: throttle.Starts, Try: 2},
		{Kind: throttle.Ends, Try: 2, Report: pace.Report{Verdict: pace.Served}},
		{Kind: throttle.GivesUp, Err: &throttle.Error{Reason: throttle.ErrTooLate}},
		{Kind: throttle.Starts, Try: 1},
		{Kind: throttle.Ends, Try: 1, Report: pace.Report{Verdict: pace.Throttled}},
		{Kind: throttle.GivesUp, Try: 1, Err: &throttle.Error{Reason: throttle.ErrTries, Err: refused}},
	} {
		c.onEvent(e)
	}
	if got, want := c.String(), "calls: 3 made, 2 refused by the API, 1 of those absorbed, 2 given up"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
