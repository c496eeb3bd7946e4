//go:build unix

package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

const token = "0123456789abcdef"

const files = `version: 1
rules: {file: rules.yaml}
drain: {delay: 0s}
gateway:
  listen: 127.0.0.1:0
  routes:
    - {match: /a/*, to: TO}
    - {match: /b, to: TO, degraded: {status: 203, body: less}, degrade_switch: lean}
admin: {listen: '127.0.0.1:0', token: ` + token + `}
`

const twoAnHour = "version: v1\nrules: {name: all, key: header:K, limits: 2/h}\n"

func TestServe(t *testing.T) {
	r := start(t, folder(t, hello, "f.yaml", files, "rules.yaml", twoAnHour), "f.yaml")
	if got, want := r.statuses(3, "/a/x", "K", "1")+" "+r.statuses(1, "/a/x", "K", "2")+" "+r.statuses(1, "/c"), "200 200 429 200 404"; got != want {
		t.Errorf("statuses %s, want %s", got, want)
	}
	for path, want := range map[string]string{"/livez": "ok\n", "/readyz": "ready\n"} {
		if status, body := get(t, r.admin+path); status != 200 || body != want {
			t.Errorf("GET %s: %d %q", path, status, body)
		}
	}
	if status, _ := get(t, r.admin+"/metrics"); status != 401 {
		t.Errorf("metrics without a token: %d, want 401", status)
	}
	_, metrics := get(t, r.admin+"/metrics", "Authorization", "Bearer "+token)
	for _, want := range []string{"throttle_config_", `name="files"`, `version="v1"`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s:\n%s", want, metrics)
		}
	}
	if code := r.stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// The rules change while the program runs. What is half-written, wrong or older
// is refused whole.
func TestRulesChange(t *testing.T) {
	r := start(t, folder(t, hello, "f.yaml", files, "rules.yaml", "version: v1\nserial: 5\nrules: {name: all, key: header:K, limits: 2/h}\n"), "f.yaml")
	if got := r.statuses(3, "/a/x", "K", "1"); got != "200 200 429" {
		t.Fatalf("statuses %s", got)
	}
	r.write("rules.yaml", "version: v2\nserial: 6\nrules: {name: all, key: header:K, limits: 5/h}\n")
	if _, ok := r.heard(4*time.Second, []string{`"new rules"`, `"v2"`}); !ok {
		t.Error("the change was not seen before the next look at the file")
	}
	if got := r.statuses(4, "/a/x", "K", "1"); got != "200 200 200 429" {
		t.Errorf("statuses %s, want three more: what was used is carried over", got)
	}
	for _, c := range []struct{ text, want string }{
		{"version: v3\nserial: 7\nrules:\n  - {name: all, key: header:K, lim", "5:1: not YAML"},
		{"version: v3\nserial: 7\nrules:\n  - {name: all, limits: 5/fortnight}\n", `4:25`},
		{"version: v1\nserial: 5\nrules: []\n", "serial"},
	} {
		r.write("rules.yaml", c.text)
		line := r.said("the rules stay as they are", `"version":"v2"`, c.want)
		if got := r.statuses(1, "/a/x", "K", "1"); got != "429" {
			t.Errorf("%s: status %s, want the old rules", line, got)
		}
	}
	_, metrics := get(t, r.admin+"/metrics", "Authorization", "Bearer "+token)
	if !strings.Contains(metrics, `throttle_config_last_reload_successful{`) || !strings.Contains(metrics, `version="v2"`) {
		t.Errorf("the metrics do not say that the reload failed:\n%s", metrics)
	}
	r.write("rules.yaml", "version: v8\nserial: 8\nrules: []\n")
	r.said(`"new rules"`, `"v8"`)
	many := "version: v9\nserial: 9\nrules:\n"
	for i := range 200 {
		many += fmt.Sprintf("  - {name: rule-%d, limits: 5/s}\n", i)
	}
	r.write("rules.yaml", many)
	r.said(`"new rules"`, `"v9"`, `"changes":202`) // the version and the serial are two
}

// Routes and switches change while the program runs; what needs a restart is said
// in one line; a bad file keeps what was in use.
func TestFilesChange(t *testing.T) {
	dir := folder(t, hello, "f.yaml", files, "rules.yaml", twoAnHour)
	r := start(t, dir, "f.yaml")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	t.Cleanup(other.Close)
	text := strings.ReplaceAll(files, "TO", other.URL)
	r.write("f.yaml", strings.Replace(text, "to:", "too:", 1))
	r.said("not reloaded; what was in use stays", `f.yaml:7:21: gateway.routes[0]: unknown field too; did you mean to?`)
	if got := r.statuses(1, "/a/x", "K", "1"); got != "200" {
		t.Errorf("status %s, want the old routes", got)
	}
	r.write("f.yaml", strings.Replace(text, "127.0.0.1:0", "127.0.0.1:1", 1)+"store: {url: 'redis://127.0.0.1:1'}\n")
	r.said("restart to put this into use: store.url, gateway.listen")
	r.said(`"reloaded"`)
	r.until(204, "/a/x", "K", "2")
	r.write("rules.yaml", "version: v2\nswitches: {name: lean, value: true}\nrules: []\n")
	r.said(`"new rules"`, `"v2"`)
	if status, body := get(t, r.gateway+"/b"); status != 203 || body != "less" {
		t.Errorf("with the switch on: %d %q, want the degraded answer", status, body)
	}
}

// It starts without the store and without the URL of its rules, and says both.
func TestStartsWithoutWhatIsAway(t *testing.T) {
	text := strings.ReplaceAll(files, "{file: rules.yaml}", "{file: rules.yaml, url: 'http://GONE/'}")
	text = strings.ReplaceAll(text+"store: {url: 'redis://GONE', instances: 2}\n", "GONE", clitest.Vacant(t))
	r := start(t, folder(t, hello, "f.yaml", text, "rules.yaml", "version: v1\nrules: {name: all, key: header:K, limits: 4/h}\n"), "f.yaml")
	r.said("ERROR", "no rules from there", `"source":"url"`, "refused")
	r.said("ERROR", "the store does not decide", `"away":"share"`)
	if got := r.statuses(3, "/a/x", "K", "1"); got != "200 200 429" {
		t.Errorf("statuses %s, want the half of the limit", got)
	}
	if status, body := get(t, r.admin+"/readyz"); status != 200 {
		t.Errorf("/readyz: %d %q, want 200: there are rules from the file", status, body)
	}
	if n := r.count("the store does not decide"); n != 1 {
		t.Errorf("that the store is away was said %d times, want once", n)
	}
}

// Without any rules it serves, says so, and is not ready.
func TestStartsWithoutRules(t *testing.T) {
	text := strings.ReplaceAll(files, "{file: rules.yaml}", "{url: 'http://127.0.0.1:1/'}")
	r := start(t, folder(t, hello, "f.yaml", text), "f.yaml")
	r.said("serving", "none yet: nobody is limited")
	if status, _ := get(t, r.admin+"/readyz"); status != 503 {
		t.Errorf("/readyz: %d, want 503", status)
	}
	if got := r.statuses(2, "/a/x"); got != "200 200" {
		t.Errorf("statuses %s, want 200 200", got)
	}
}

// What operators change goes into the overlay, which survives a restart.
func TestOverlay(t *testing.T) {
	dir := folder(t, hello, "f.yaml", strings.ReplaceAll(files, "{file: rules.yaml}", "{file: rules.yaml, overlay: overlay.json}"), "rules.yaml", twoAnHour)
	r := start(t, dir, "f.yaml")
	if got := r.statuses(3, "/a/x", "K", "1"); got != "200 200 429" {
		t.Fatalf("statuses %s", got)
	}
	q, err := http.NewRequestWithContext(t.Context(), "PUT", r.admin+"/api/v1/kill", strings.NewReader(`{"for": "1h", "why": "an incident"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(a.Body)
	a.Body.Close()
	if a.StatusCode >= 300 {
		t.Fatalf("kill: %d %s", a.StatusCode, said)
	}
	if got := r.statuses(3, "/a/x", "K", "1"); got != "200 200 200" {
		t.Errorf("with the kill switch: %s", got)
	}
	r.stop()
	if got := start(t, dir, "f.yaml").statuses(4, "/a/x", "K", "1"); got != "200 200 200 200" {
		t.Errorf("after a restart: %s, want the kill switch on", got)
	}
}

// A source that hangs, lies, or sends a gigabyte leaves the rules as they are.
func TestHostileSource(t *testing.T) {
	answers := make(chan http.HandlerFunc, 1)
	var now atomic.Value // the answer of every request until the next is put: one that hung may still run beside its successor
	now.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "version: v1\nrules: {name: all, limits: 1/h}\n")
	}))
	var sent atomic.Int64
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case next := <-answers:
			now.Store(next)
		default:
		}
		now.Load().(http.HandlerFunc)(w, r)
	}))
	t.Cleanup(source.Close)
	text := strings.ReplaceAll(files, "{file: rules.yaml}", "{url: '"+source.URL+"', every: 1h, timeout: 1s}")
	r := start(t, folder(t, hello, "f.yaml", text), "f.yaml")
	if got := r.statuses(2, "/a/x"); got != "200 429" {
		t.Fatalf("statuses %s", got)
	}
	for _, c := range []struct {
		answer http.HandlerFunc
		want   string
	}{
		{func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline exceeded"},
		{func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>welcome</html>") }, "1:1"},
		{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "rules: []\n")
		}, "unexpected EOF"},
		{func(w http.ResponseWriter, r *http.Request) {
			line := []byte(strings.Repeat("#", 1<<16) + "\n")
			for sent.Store(0); sent.Load() < 1<<30 && r.Context().Err() == nil; {
				n, err := w.Write(line)
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		}, "longer than 1048576 bytes"},
	} {
		answers <- c.answer
		r.hangup("the rules stay as they are", `"version":"v1"`, c.want)
		if got := r.statuses(1, "/a/x"); got != "429" {
			t.Errorf("%s: status %s, want the old rules", c.want, got)
		}
	}
	answers <- func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "version: v2\nrules: []\n") }
	r.hangup(`"new rules"`, `"v2"`)
	if n := sent.Load(); n >= 1<<28 {
		t.Errorf("%d bytes were taken, want few above a MiB", n)
	}
}

var scopes = regexp.MustCompile(`\{(otel_scope_[a-z_]+="[^"]*",)+`)

// Load shedding has metrics by route, of the routes in use.
func TestShedderMetrics(t *testing.T) {
	dir := folder(t, hello, "f.yaml", strings.Replace(files, "/a/*, to: TO", "/a/*, to: TO, shed: {max_in_flight: 7}", 1), "rules.yaml", "rules: []\n")
	before, err := os.ReadFile(filepath.Join(dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, dir, "f.yaml")
	if got := r.statuses(2, "/a/x"); got != "200 200" {
		t.Fatalf("statuses %s", got)
	}
	metrics := func() string {
		_, text := get(t, r.admin+"/metrics", "Authorization", "Bearer "+token)
		return scopes.ReplaceAllString(text, "{")
	}
	for _, want := range []string{`throttle_shedder_limit{throttle_name="/a/*"} 7`, `throttle_shedder_requests_total{throttle_name="/a/*",throttle_outcome="admitted",throttle_priority="normal"} 2`} {
		if got := metrics(); !strings.Contains(got, want) {
			t.Errorf("there is no %s in\n%s", want, got)
		}
	}
	r.write("f.yaml", strings.Replace(string(before), "/a/*, to", "/c/*, to", 1))
	r.reload()
	if got := metrics(); strings.Contains(got, `throttle_name="/a/*"`) || !strings.Contains(got, `throttle_shedder_limit{throttle_name="/c/*"} 7`) {
		t.Errorf("after a reload there are\n%s", got)
	}
}

// At the end, what is in flight is answered, and /readyz is red.
func TestDrain(t *testing.T) {
	began, free := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-free
		io.WriteString(w, "done")
	})
	r := start(t, folder(t, slow, "f.yaml", strings.ReplaceAll(files, "delay: 0s", "delay: 1s"), "rules.yaml", twoAnHour), "f.yaml")
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	answered := make(chan string, 1)
	go func() {
		_, body := get(t, r.gateway+"/a/x")
		answered <- body
	}()
	<-began
	ended := make(chan int, 1)
	go func() { ended <- r.stop() }()
	late := time.Now().Add(20 * time.Second)
	for status := 200; status != 503; time.Sleep(5 * time.Millisecond) {
		if status, _ = get(t, r.admin+"/readyz"); time.Now().After(late) {
			t.Fatal("/readyz is not red while it drains")
		}
	}
	release()
	if body, code := <-answered, <-ended; body != "done" || code != 0 {
		t.Errorf("in flight at the end: %q, exit code %d; want done, 0", body, code)
	}
}

// What memory: has counted goes on after a restart.
func TestSnapshot(t *testing.T) {
	dir := folder(t, hello, "f.yaml", files+"store: {url: 'memory:', snapshot: kept}\n", "rules.yaml", twoAnHour)
	r := start(t, dir, "f.yaml")
	if got := r.statuses(2, "/a/x", "K", "1"); got != "200 200" {
		t.Fatalf("statuses %s", got)
	}
	if code := r.stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if got := start(t, dir, "f.yaml").statuses(1, "/a/x", "K", "1"); got != "429" {
		t.Errorf("after a restart: %s, want 429", got)
	}
}

// Bad files and sockets in use have one line with the place.
func TestDoesNotStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := folder(t, hello, "rules.yaml", "rules:\n  - {name: a, limits: x}\n", "r.yaml", "version: 1\nrules: {file: rules.yaml}\nadmin: {listen: '127.0.0.1:0'}\n",
		"u.yaml", "version: 1\nadmin: {listen: '"+l.Addr().String()+"'}\n", "y.yaml", "version: 1\nadmin: [\n",
		"c.yaml", "version: 1\nadmin: {listen: {address: '127.0.0.1:0', tls: {cert: none.pem, key: none.pem}}}\n",
		"t.yaml", "version: 1\ngateway:\n  listen: [{address: '127.0.0.1:0', tls: {cert: none.pem, key: none.pem}}]\n  routes: {to: TO}\n",
		"i.yaml", "version: 1\ngateway:\n  listen: '127.0.0.1:0'\n  identity: {header: X_User, from: 10.0.0.0/8}\n  routes: {to: TO}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "throttle: serve: no file; write 'throttle serve FILE'\n"},
		{[]string{"none.yaml"}, "throttle: serve: open none.yaml: no such file or directory\n"},
		{[]string{"r.yaml"}, "throttle: rules.yaml:2:23: rules[0].limits: "},
		{[]string{"u.yaml"}, "throttle: u.yaml:2:17: admin.listen: listen tcp " + l.Addr().String() + ": bind: address already in use\n"},
		{[]string{"y.yaml"}, "throttle: y.yaml:3:1: not YAML: "},
		{[]string{"c.yaml"}, "throttle: c.yaml:2:47: admin.listen.tls: open none.pem: no such file or directory\n"},
		{[]string{"t.yaml"}, "throttle: t.yaml:3:42: gateway.listen[0].tls: open none.pem: no such file or directory\n"},
		{[]string{"i.yaml"}, "throttle: i.yaml:4:22: gateway.identity.header: \"X_user\": must be a field of its own, as X-Customer\n"},
	} {
		var args []string
		for _, name := range c.args {
			args = append(args, filepath.Join(dir, name))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		out, errs, code := clitest.Play(ctx, Run, args...)
		cancel()
		if errs = strings.ReplaceAll(errs, dir+"/", ""); code != 2 || out != "" || !strings.HasPrefix(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("serve %v: code %d\ngot  %s\nwant %s", c.args, code, errs, c.want)
		}
	}
}

// TestEndsBeforeItServes: where it is told to end while it waits for its rules, it opens
// no socket, as nobody would be limited.
func TestEndsBeforeItServes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	page := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(page.Close)
	dir := folder(t, hello, "f.yaml", strings.Replace(files, "{file: rules.yaml}", "{url: '"+page.URL+"'}", 1))
	var log strings.Builder
	err := Run(ctx, []string{filepath.Join(dir, "f.yaml")}, strings.NewReader(""), io.Discard, &log)
	if said := log.String(); err != nil || strings.Contains(said, `"serving"`) || !strings.Contains(said, "ended before it served") {
		t.Errorf("Run = %v, want nil and that it did not serve:\n%s", err, said)
	}
}

func TestHelp(t *testing.T) {
	out, _, code := clitest.Play(t.Context(), Run, "-h")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	clitest.Golden(t, "help.golden", out)
}
