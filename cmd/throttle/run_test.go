//go:build unix

package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// limited is an API by TLS of 5 requests a second, and counts what it answered.
type limited struct {
	*httptest.Server
	host   string // with its port
	roots  string // the file of its authority
	served atomic.Int64
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	api := new(limited)
	handler := &throttlehttp.Handler{
		Control: &admit.Control{Limit: limit.Limit{Count: 5, Period: time.Second}}, Headers: throttlehttp.Draft,
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { api.served.Add(1); io.WriteString(w, "served\n") }),
	}
	api.Server = httptest.NewUnstartedServer(handler)
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	api.host = strings.TrimPrefix(api.URL, "https://")
	api.roots = filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	if err := os.WriteFile(api.roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return api
}

// runs is 'throttle run' with args, in an environment without proxies that trusts the API.
func (api *limited) runs(t *testing.T, args ...string) (c *exec.Cmd, temporary string) {
	t.Helper()
	c = program(t, append([]string{"run"}, args...)...)
	temporary = t.TempDir()
	packages, err := filepath.Abs("../../.bin/python") // of scripts/need.sh
	if err != nil {
		t.Fatal(err)
	}
	all := c.Env
	c.Env = nil
	for _, v := range all {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		if !slices.Contains([]string{"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR"}, name) && !strings.HasSuffix(name, "_PROXY") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, "SSL_CERT_FILE="+api.roots, "TMPDIR="+temporary, "PYTHONPATH="+packages)
	return c, temporary
}

// empty fails if something is left in the temporary directory of a run.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("the run leaves %v, %v; want nothing", left, err)
	}
}

// Each program sends 10 requests, 5 at a time, to the URL that is its argument, and prints
// each status on a line. It knows nothing of a proxy.
const (
	runUrllib = `
import sys, urllib.request, concurrent.futures
def call(i):
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/%d" % i, data=b"x" if i % 2 else None)) as a:
        return a.status
with concurrent.futures.ThreadPoolExecutor(5) as pool:
    for status in pool.map(call, range(10)): print(status)
`
	runRequests = `
import sys, requests, concurrent.futures
def call(i): return requests.request("POST" if i % 2 else "GET", sys.argv[1] + "/%d" % i, data=b"x" if i % 2 else None).status_code
with concurrent.futures.ThreadPoolExecutor(5) as pool:
    for status in pool.map(call, range(10)): print(status)
`
	runHTTPX = `
import sys, httpx, concurrent.futures
with httpx.Client(timeout=30) as client:
    def call(i): return client.request("POST" if i % 2 else "GET", sys.argv[1] + "/%d" % i, content=b"x" if i % 2 else None).status_code
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        for status in pool.map(call, range(10)): print(status)
`
	runFetch = `
const call = async i => (await fetch(process.argv[1] + "/" + i, i % 2 ? {method: "POST", body: "x"} : {})).status
let i = 0
const worker = async () => { while (i < 10) console.log(await call(i++)) }
for (let n = 0; n < 5; n++) worker()
`
)

// TestRunClients: programs that know nothing of a proxy see no refusal of an API that refuses
// what is above 5 a second.
func TestRunClients(t *testing.T) {
	node := os.Getenv("NODE")
	if node == "" {
		node = "node"
	}
	for _, c := range []struct {
		name string
		need []string // runs where the program is there
		args []string
	}{
		{"curl", nil, []string{"curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}\n", "--parallel", "--parallel-max", "5", "URL/[1-10]"}},
		{"urllib", nil, []string{"python3", "-c", runUrllib, "URL"}},
		{"requests", []string{"python3", "-c", "import requests"}, []string{"python3", "-c", runRequests, "URL"}},
		{"httpx", []string{"python3", "-c", "import httpx"}, []string{"python3", "-c", runHTTPX, "URL"}},
		{"fetch of Node.js 24", []string{node, "-e", "if (process.versions.node.split('.')[0] < 24) throw 1"}, []string{node, "-e", runFetch, "URL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clitest.Program(t, c.args[0])
			api := newLimited(t)
			if c.need != nil {
				need := exec.CommandContext(t.Context(), c.need[0], c.need[1:]...)
				run, _ := api.runs(t)
				if need.Env = run.Env; need.Run() != nil {
					t.Skipf("NO %s: throttle run is NOT tested with it; scripts/need.sh installs those of Python, and NODE names a Node.js", strings.ToUpper(c.name))
				}
			}
			args := append([]string{"-host", api.host, "--"}, c.args...)
			args[len(args)-1] = strings.Replace(args[len(args)-1], "URL", api.URL, 1)
			run, dir := api.runs(t, args...)
			var stdout, stderr bytes.Buffer
			run.Stdout, run.Stderr = &stdout, &stderr
			err := run.Run()
			if n := strings.Count(stdout.String(), "200\n"); err != nil || n != 10 || api.served.Load() != 10 {
				t.Errorf("%v; %d of 10 were answered 200, the API served %d:\n%s%s", err, n, api.served.Load(), &stdout, &stderr)
			}
			var calls, refused, absorbed, gaveUp int
			_, said, _ := strings.Cut(stderr.String(), "throttle run: ") // after what curl shows
			if _, err := fmt.Sscanf(said, "calls: %d made, %d refused by the API, %d of those absorbed, %d given up\n", &calls, &refused, &absorbed, &gaveUp); err != nil || calls != 10 || refused > 3 || absorbed != refused || gaveUp != 0 {
				t.Errorf("%v: it says %s", err, &stderr)
			}
			empty(t, dir)
		})
	}
}

// TestRunStatus: the exit code is that of the program, as a shell has it, and what is written
// by the program alone is what is read.
func TestRunStatus(t *testing.T) {
	api := newLimited(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"-q -host h.example -- cat", 0, "in\n", ""},
		{"-host h.example -- true", 0, "", "throttle run: no call of -host was made through the proxy; does the program use HTTPS_PROXY? -v says what is refused\n"},
		{"-q -host h.example -- sh -c exit_7", 7, "", ""},
		{"-q -host h.example -- sh -c kill_-KILL_$$", 137, "", ""},
		{"-q -host h.example -- sh -c yes_|_head_-1", 0, "y\n", ""},
		{"-host h.example -- no-such-program", 127, "", "throttle: run: no-such-program: executable file not found in $PATH\n"},
		{"-host h.example -- /no/such/program", 127, "", "throttle: run: /no/such/program: no such file or directory\n"},
		{"-host h.example -- " + plain, 126, "", "throttle: run: " + plain + ": permission denied\n"},
		{"-host h.example true", 2, "", "throttle: run: -- is missing; write 'throttle run -host HOST -- COMMAND ARGS'\n"},
	} {
		var args []string
		for _, a := range strings.Fields(c.args) {
			args = append(args, strings.ReplaceAll(a, "_", " "))
		}
		run, dir := api.runs(t, args...)
		var stdout, stderr bytes.Buffer
		run.Stdin, run.Stdout, run.Stderr = strings.NewReader("in\n"), &stdout, &stderr
		if err := run.Run(); run.ProcessState.ExitCode() != c.code || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("throttle run %s: %v, %q, %q; want %d, %q, %q", c.args, err, &stdout, &stderr, c.code, c.stdout, c.stderr)
		}
		empty(t, dir)
	}
}

// TestRunSignalsPassed: a signal reaches the program, whose end is that of the run; its certificates
// are in a directory of its own, without a key, and gone at the end.
func TestRunSignalsPassed(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		script string
		code   int
	}{
		{syscall.SIGTERM, `echo here; read _ || true`, 143},
		{syscall.SIGTERM, `trap 'exit 7' TERM; echo here; read _`, 7},
		{syscall.SIGINT, `trap 'exit 8' INT; echo here; read _`, 8},
		{syscall.SIGHUP, `trap 'exit 9' HUP; echo here; read _`, 9},
		{syscall.SIGUSR1, `trap 'exit 10' USR1; echo here; read _`, 10},
	} {
		api := newLimited(t)
		run, dir := api.runs(t, "-q", "-host", api.host, "--", "sh", "-c", c.script)
		run.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
		in, err := run.StdinPipe()
		out, err2 := run.StdoutPipe()
		if err := errors.Join(err, err2, run.Start()); err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(20*time.Second, func() { syscall.Kill(-run.Process.Pid, syscall.SIGKILL) })
		if _, err := io.ReadFull(out, make([]byte, len("here\n"))); err != nil {
			t.Fatal(err)
		}
		certificatesOnly(t, dir)
		if err := run.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		err = run.Wait()
		stuck.Stop()
		in.Close()
		if got := run.ProcessState.ExitCode(); got != c.code {
			t.Errorf("%v to %s: %v, code %d, want %d", c.signal, c.script, err, got, c.code)
		}
		empty(t, dir)
	}
}

// certificatesOnly fails unless the run has one directory, which is closed to others, with
// certificates and no key.
func certificatesOnly(t *testing.T, temporary string) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(temporary, "throttle-run-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("the run has %q, %v; want one directory", dirs, err)
	}
	if info, err := os.Stat(dirs[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v; want mode 0700", dirs[0], info.Mode(), err)
	}
	files, err := filepath.Glob(filepath.Join(dirs[0], "*"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has %q, %v; want certificates", dirs[0], files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(text, []byte("-----BEGIN CERTIFICATE-----")) || bytes.Contains(text, []byte("PRIVATE KEY")) {
			t.Errorf("%s: %v; want certificates alone", name, err)
		}
	}
}

// TestRunEnds: a run ends with its program, also if that leaves a process behind.
func TestRunEnds(t *testing.T) {
	api := newLimited(t)
	run, dir := api.runs(t, "-q", "-host", api.host, "--", "sh", "-c", "sleep 60 & exit 3")
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	began := time.Now()
	err := run.Run()
	syscall.Kill(-run.Process.Pid, syscall.SIGKILL) // the sleep
	if took := time.Since(began); run.ProcessState.ExitCode() != 3 || took > 20*time.Second {
		t.Errorf("%v after %v, want code 3 at once", err, took)
	}
	empty(t, dir)
}

// TestRunOthers: other hosts are reached by https and by http, or with -only refused; nobody
// without the password uses the proxy.
func TestRunOthers(t *testing.T) {
	clitest.Program(t, "curl")
	api, plain := newLimited(t), httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "plain\n") }))
	defer plain.Close()
	const script = `for u in "$@"; do curl -sS --noproxy '' -o /dev/null -w '%{http_code} %{http_connect}\n' $u; done
unset http_proxy; curl -sS -o /dev/null -w '%{http_code}\n' --noproxy '' -x 127.0.0.1:${HTTPS_PROXY##*:} "$2"`
	for only, want := range map[string]string{"-only=false": "200 200\n200 000\n407\n", "-only": "000 403\n403 000\n407\n"} {
		run, dir := api.runs(t, "-q", "-host", "h.example", only, "--", "sh", "-c", script, "sh", api.URL, plain.URL)
		out, err := run.Output()
		if err != nil || string(out) != want {
			t.Errorf("%s: %v, %q, want %q", only, err, out, want)
		}
		empty(t, dir)
	}
}
