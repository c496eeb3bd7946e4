package top

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
)

func tick(id, passed, refused int64, p float64) ticks.Tick {
	one := ticks.Count{Passed: passed, Refused: refused}
	return ticks.Tick{
		ID: id, Seconds: 1, Count: one, Rules: map[string]ticks.Count{"per-client": one}, P50: &p, P99: &p,
		State: ticks.State{Version: "v1", Store: "closed", Age: 2},
	}
}

// listener answers as the admin listener does.
func listener(t *testing.T, all ...ticks.Tick) string {
	t.Helper()
	s := httptest.NewServer(answers(all))
	t.Cleanup(s.Close)
	return s.URL
}

// answers are those of a listener with ticks.
func answers(all []ticks.Tick) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(401)
			return
		}
		answer := map[string]any{
			"/api/v1/status": map[string]any{"instance": "gw-1"},
			"/api/v1/rules":  map[string]any{"rules": []any{map[string]any{"name": "per-client"}, map[string]any{"name": "login"}}},
			"/api/v1/series": map[string]any{"ticks": all},
		}[r.URL.Path]
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// TestSocket: a listener is named as the file of 'throttle serve' names it.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(answers(nil))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	if out, errs, code := clitest.Play(t.Context(), Run, "-admin", "unix:"+path, "-token", "secret"); code != 0 || !strings.HasPrefix(out, "gw-1") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
	if _, errs, code := clitest.Play(t.Context(), Run, "-admin", "unix:"+path); code != 2 || !strings.Contains(errs, "unix:") || !strings.Contains(errs, "wants a token") {
		t.Errorf("without a token: code %d: %s", code, errs)
	}
	if _, errs, code := clitest.Play(t.Context(), Run, "-admin", "unix:/nowhere/s"); code != 1 || !strings.Contains(errs, "nothing listens at unix:/nowhere/s; want") {
		t.Errorf("no socket: code %d: %s", code, errs)
	}
}

func TestOnce(t *testing.T) {
	var all []ticks.Tick
	for i := range int64(600) {
		all = append(all, tick(1200+i, i, i/10, float64(i)*1e-5))
	}
	url := listener(t, all...)
	out, errs, code := clitest.Play(t.Context(), Run, "-admin", url, "-token", "secret")
	want := `gw-1  rules v1, confirmed 2 s ago  store closed, 0 without it
decisions            ▁▁▁▁▁▂▂▂▂▂▃▃▃▃▃▄▄▄▄▄▅▅▅▅▅▆▆▆▆▆▇▇▇▇▇█████  599 passed/s  59 refused/s
added latency, p99   ▁▁▁▁▁▂▂▂▂▂▃▃▃▃▃▄▄▄▄▄▅▅▅▅▅▆▆▆▆▆▇▇▇▇▇█████  p50 5.99 ms  p99 5.99 ms
per-client           ▁▁▁▁▁▂▂▂▂▂▃▃▃▃▃▄▄▄▄▄▅▅▅▅▅▆▆▆▆▆▇▇▇▇▇█████  599 passed/s  59 over/s  0 shadow/s
login                ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  0 passed/s  0 over/s  0 shadow/s
`
	if out != want || code != 0 {
		t.Errorf("code %d, %s\n%s\nwant\n%s", code, errs, out, want)
	}
	if out, _, _ := clitest.Play(t.Context(), Run, "-admin", listener(t), "-token", "secret"); !strings.Contains(out, "first second") {
		t.Errorf("without a tick: %s", out)
	}
}

// TestOnceFirst: a listener that nobody has looked at lately has no tick yet, and the
// first one is waited for.
func TestOnceFirst(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/", answers(nil))
	mux.HandleFunc("/api/v1/stream", func(w http.ResponseWriter, r *http.Request) {
		data, _ := json.Marshal(tick(1, 5, 2, 1e-5))
		fmt.Fprintf(w, ": hello\n\nid: 1\ndata: %s\n\n", data)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // a stream goes on
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	out, errs, code := clitest.Play(t.Context(), Run, "-admin", s.URL, "-token", "secret", "-once")
	if !strings.Contains(out, "5 passed/s  2 refused/s") || code != 0 {
		t.Errorf("code %d, %s\n%s\nwant the first tick", code, errs, out)
	}
}

func TestWrongUsage(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	t.Cleanup(other.Close)
	url := listener(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-admin", "gw:6070"}, 2, "like http://127.0.0.1:6070 or unix:PATH"},
		{[]string{"-admin", "unix:"}, 2, "like http://127.0.0.1:6070 or unix:PATH"},
		{[]string{"-admin", "http://127.0.0.1:99999"}, 2, "-admin http://127.0.0.1:99999: the port must be a number from 1 to 65535"},
		{[]string{"-admin", "http://127.0.0.1:1?x=1"}, 2, "like http://127.0.0.1:6070"},
		{[]string{"-admin", "http://127.0.0.1:1/#x"}, 2, "like http://127.0.0.1:6070"},
		{[]string{"-admin", "http://:6070"}, 2, "like http://127.0.0.1:6070"},
		{[]string{"-token", "a\nb"}, 2, "the token has a line break; write it without"},
		{[]string{"-admin", "http://u:secret@127.0.0.1:1"}, 1, "nothing listens at http://u:xxxxx@127.0.0.1:1; want"},
		{[]string{"-admin", strings.Replace(url, "http://", "http://u:secret@", 1)}, 2, "http://u:xxxxx@127.0.0.1"},
		{[]string{"x"}, 2, "one too many"},
		{[]string{"-once", "-admin", other.URL}, 1, "is no admin listener"},
		{[]string{"-admin", url}, 2, "wants a token"},
		{[]string{"-admin", url, "-token", "another"}, 2, "does not know the token"},
		{[]string{"-admin", "http://127.0.0.1:1"}, 1, "nothing listens at http://127.0.0.1:1; want 'throttle serve' with a section admin there"},
	} {
		if _, errs, code := clitest.Play(t.Context(), Run, c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: code %d, %s", c.args, code, errs)
		}
	}
}

// TestFollow: ticks of the stream are drawn over the lines before, and one that was
// seen already is not counted twice.
func TestFollow(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/stream" || r.FormValue("after") != "7" {
			t.Errorf("asked for %s", r.URL)
		}
		for _, id := range []int64{7, 8, 9} {
			text, _ := json.Marshal(tick(id, id, 0, 1e-3))
			fmt.Fprintf(w, ": still here\n\nid: %d\ndata: %s\n\n", id, text)
		}
	}))
	defer s.Close()
	var out bytes.Buffer
	view := &screen{to: &out, width: 60, rules: []string{"per-client"}}
	view.add(tick(7, 7, 0, 1e-3))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := (&admin{base: s.URL, client: s.Client()}).follow(ctx, view); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("the stream ended by %v", err)
	}
	if len(view.ticks) != 3 || view.ticks[2].ID != 9 {
		t.Errorf("%d ticks", len(view.ticks))
	}
	if text := out.String(); strings.Count(text, "\x1b[4A") != 2 || strings.Count(text, "added latency") != 3 {
		t.Errorf("drawn:\n%q", text)
	}
}

// However narrow the terminal is, the figures of now are on it, and that limiting is off.
func TestDrawNarrow(t *testing.T) {
	for width, want := range map[int]string{
		120: `KILL SWITCH ON  gw-1  rules v1, confirmed 2 s ago  store closed, 0 without it
decisions                                                   █  1,234 passed/s  567 refused/s
added latency, p99                                          █  p50 5.99 ms  p99 5.99 ms
per-client                                                  █  1,234 passed/s  567 over/s  0 shadow/s
`,
		80: `KILL SWITCH ON  gw-1  rules v1, confirmed 2 s ago  store closed, 0 without it
decisions                             █  1,234 passed/s  567 refused/s
added latency, p99                    █  p50 5.99 ms  p99 5.99 ms
per-client                            █  1,234 passed/s  567 over/s  0 shadow/s
`,
		62: `KILL SWITCH ON  gw-1  rules v1, confirmed 2 s ago  store clos
decisions            1,234 passed/s  567 refused/s
added latency, p99   p50 5.99 ms  p99 5.99 ms
per-client           1,234 passed/s  567 over/s  0 shadow/s
`,
		41: `KILL SWITCH ON  gw-1  rules v1, confirme
decision 1,234 passed/s  567 refused/s
added la p50 5.99 ms  p99 5.99 ms
per-clie 1,234 passed/s  567 over/s  0 s
`,
	} {
		var out bytes.Buffer
		one := tick(1199, 1234, 567, 5.99e-3)
		one.Kill = true
		s := &screen{to: &out, width: width, rules: []string{"per-client"}, status: status{Instance: "gw-1"}}
		s.add(one)
		if err := s.draw(); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(strings.TrimSuffix(out.String(), "\x1b[J"), "\x1b[K", ""); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// What does not fit on the terminal is not drawn: lines that have left it above could
// not be drawn over.
func TestDrawFits(t *testing.T) {
	for _, c := range []struct {
		height, lines int
		last          string
	}{
		{0, 9, "f"}, {10, 9, "f"}, {9, 8, "2 lines more, on a higher terminal"}, {3, 2, "8 lines more, on a higher terminal"}, {2, 1, "9 lines more, on a higher terminal"},
	} {
		var out bytes.Buffer
		s := &screen{to: &out, width: 80, height: c.height, rules: strings.Split("abcdef", "")}
		s.add(tick(1, 1, 0, 1e-3))
		if err := s.draw(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n\x1b[J"), "\n")
		if last := lines[len(lines)-1]; len(lines) != c.lines || s.lines != c.lines || !strings.HasPrefix(last, "\x1b[K"+c.last) {
			t.Errorf("height %d: %d lines, the last %q; want %d, %q", c.height, len(lines), last, c.lines, c.last)
		}
	}
}

// Rules that come while it runs are shown.
func TestFollowNewRules(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/rules" {
			fmt.Fprint(w, `{"rules": [{"name": "old"}, {"name": "added"}]}`)
			return
		}
		for id, version := range []string{"v1", "v2"} {
			one := tick(int64(id)+8, 1, 0, 1e-3)
			one.Version = version
			text, _ := json.Marshal(one)
			fmt.Fprintf(w, "data: %s\n\n", text)
		}
	}))
	defer s.Close()
	var out bytes.Buffer
	view := &screen{to: &out, width: 60, rules: []string{"old"}}
	view.add(tick(7, 7, 0, 1e-3))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_ = (&admin{base: s.URL, client: s.Client()}).follow(ctx, view) // it ends
	if text := out.String(); strings.Count(text, "old ") != 2 || strings.Count(text, "added ") != 2+1 {
		t.Errorf("drawn:\n%q\nwant the rule added from version v2 on", text)
	}
}
