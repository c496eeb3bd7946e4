package probe

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/signal"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestReadLog(t *testing.T) {
	const day = "2026-01-02T15:04:05.678901Z"
	for _, test := range []struct {
		text    string
		sent    string
		took    time.Duration
		status  int
		waiting string // Retry-After
	}{
		{day + " 429 12ms", day, 12 * time.Millisecond, 429, ""},
		{day + "\t200\t0.5\n", day, 500 * time.Millisecond, 200, ""},
		{"time;status;latency\n\"" + day + "\";\"503\";\"1s\"\n", day, time.Second, 503, ""},
		{"# by hand\n\n2026-01-02 15:04:05.678901,200", day, 50 * time.Millisecond, 200, ""},
		{"2026-01-02T16:04:05.678901+01:00 0 2s", day, 2 * time.Second, 0, ""},
		{"1767366245.678901 -", day, 50 * time.Millisecond, 0, ""},
		{`{"time":"` + day + `","status":429,"latency":"3ms","fields":{"Retry-After":"7"}}`, day, 3 * time.Millisecond, 429, "7"},
		{`{"time":1767366245.678901,"status":"200","latency":0.25}`, day, 250 * time.Millisecond, 200, ""},
		// Times that were cut off may have been later.
		{"2026-01-02T15:04:05Z 200 12ms", "2026-01-02T15:04:05Z", 1012 * time.Millisecond, 200, ""},
		{"2026-01-02T15:04:05.678Z 200 0", "2026-01-02T15:04:05.678Z", time.Millisecond, 200, ""},
	} {
		all, err := readLog("x.log", []byte(test.text), 50*time.Millisecond)
		if err != nil || len(all) != 1 {
			t.Errorf("readLog(%q) = %v, %v; want one request", test.text, all, err)
			continue
		}
		s := all[0]
		if !s.sent.Equal(at(test.sent)) || s.ended.Sub(s.sent) != test.took || s.status != test.status || s.field("Retry-After") != test.waiting {
			t.Errorf("readLog(%q) = %v for %v, status %d, Retry-After %q; want %s for %v, %d, %q",
				test.text, s.sent, s.ended.Sub(s.sent), s.status, s.field("Retry-After"), test.sent, test.took, test.status, test.waiting)
		}
	}
}

// What -log writes, -observe reads.
func TestLogRoundTrip(t *testing.T) {
	want := []seen{
		{sent: at("2026-01-02T15:04:05.678901234Z"), ended: at("2026-01-02T15:04:05.7Z"), status: 200, fields: map[string]string{"ratelimit": `"a";r=3;t=2`}},
		{sent: at("2026-01-02T15:04:06.00000001Z"), ended: at("2026-01-02T15:04:06.1Z")},
	}
	var b bytes.Buffer
	if err := writeLog(&b, reader{dialect: signal.For("")}, want); err != nil {
		t.Fatal(err)
	}
	got, err := readLog("x", b.Bytes(), time.Hour)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %v, %v\nwant %v", got, err, want)
	}
}

// A refusal that only its vendor's documentation tells is still one in the log.
func TestLogKeepsRefusals(t *testing.T) {
	begun, ended := at("2026-01-02T15:04:05.678901234Z"), at("2026-01-02T15:04:05.7Z")
	r := reader{signal.For("slack.com"), nil}
	all := []seen{{sent: begun, ended: ended, status: 200, body: []byte(`{"ok":false,"error":"ratelimited"}`)}, {sent: begun, ended: ended, status: 200}}
	var b bytes.Buffer
	if err := writeLog(&b, r, all); err != nil {
		t.Fatal(err)
	}
	b.WriteString(`{"time":"2026-01-02T15:04:06.678901234Z","status":403,"refused":true,"wait":"36h"}`)
	got, err := readLog("x", b.Bytes(), time.Hour)
	if err != nil || len(got) != 3 {
		t.Fatalf("read back %v, %v", got, err)
	}
	answers := reader{dialect: signal.For("")}.answers(got)
	if !answers[0].Refused || answers[1].Refused || !answers[2].Refused || answers[2].RetryAfter != 36*time.Hour {
		t.Errorf("%s\nis read as %+v, want the first and the third refused, the third for 36h", b.String(), answers)
	}
	if _, err := readLog("x", []byte(`{"time":1767366245.5,"status":403,"refused":true,"wait":"x"}`), 0); err == nil || !strings.Contains(err.Error(), "wait x is not one") {
		t.Errorf("a wrong wait: %v", err)
	}
}

// An answer of a cache says nothing of the limiter.
func TestCached(t *testing.T) {
	var all []seen
	for i, age := range []string{"", "0", "1", "3600", "x"} {
		sent := at("2026-01-02T15:04:05Z").Add(time.Duration(i) * time.Second)
		all = append(all, seen{sent: sent, ended: sent.Add(time.Millisecond), status: 200, fields: map[string]string{"age": age}})
	}
	r := reader{dialect: signal.For("")}
	for i, a := range r.answers(all) {
		if want := i == 2 || i == 3; a.Ignored != want {
			t.Errorf("Age %q: ignored: %t, want %t", all[i].field("age"), a.Ignored, want)
		}
	}
	for _, test := range []struct {
		seen []seen
		want bool
	}{{all[:4], false}, {all[1:4], true}} {
		f := findingsOf(r, "", test.seen, r.answers(test.seen), "")
		if got := strings.Contains(strings.Join(f.notes(), "\n"), "2 answers came from a cache"); got != test.want {
			t.Errorf("%d of %d from a cache: a note: %t, want %t", f.cached, len(test.seen), got, test.want)
		}
	}
}

// How long was waited in vain for an answer is no latency.
func TestLatencyOfAnswers(t *testing.T) {
	var all []seen
	for i := range 20 {
		sent := at("2026-01-02T15:04:05Z").Add(time.Duration(i) * time.Minute)
		all = append(all, seen{sent: sent, ended: sent.Add(5 * time.Millisecond), status: 200})
	}
	all[7].status, all[7].ended = 0, all[7].sent.Add(10*time.Second)
	r := reader{dialect: signal.For("")}
	if f := findingsOf(r, "", all, r.answers(all), ""); f.latency != 5*time.Millisecond || f.usual != 5*time.Millisecond {
		t.Errorf("latency %v, usually %v, want 5ms", f.latency, f.usual)
	}
}

// A HAR's bodies are read, and requests beside the path are left out.
func TestHARBodies(t *testing.T) {
	entry := func(url, content string) string {
		return `{"startedDateTime": "2026-01-02T15:04:06.000Z", "time": 30, "request": {"url": "` + url + `"}, "response": {"status": 200, "content": ` + content + `}}`
	}
	text := `{"log": {"entries": [` + strings.Join([]string{
		entry("https://slack.com:443/api", `{"text": "{\"ok\":false,\"error\":\"ratelimited\"}"}`),
		entry("https://slack.com/api/x", `{"encoding": "base64", "text": "eyJvayI6ZmFsc2UsImVycm9yIjoicmF0ZWxpbWl0ZWQifQ=="}`),
		entry("https://slack.com/api2", `{}`), entry("http://slack.com:8080/api", `{}`), entry("https://slack.com:8443/api", `{}`),
	}, ",") + `]}}`
	target, _ := url.Parse("https://SLACK.com/api")
	all, _, err := readHAR("x", []byte(text), target)
	if err != nil || len(all) != 2 {
		t.Fatalf("read %d, %v, want the 2 requests to the path", len(all), err)
	}
	for i, a := range (reader{dialect: signal.For("slack.com")}).answers(all) {
		if !a.Refused {
			t.Errorf("request %d: %s is not read as refused", i, all[i].body)
		}
	}
}

const harText = `{"log": {"version": "1.2", "entries": [
 {"startedDateTime": "2026-01-02T15:04:06.000Z", "time": 30, "request": {"method": "GET", "url": "https://api.example.com/v1/b"},
  "response": {"status": 429, "headers": [{"name": "Retry-After", "value": "7"}, {"name": "Set-Cookie", "value": "a=b"}]},
  "timings": {"blocked": -1, "dns": -1, "connect": -1, "send": 1, "wait": 28, "receive": 1}},
 {"startedDateTime": "2026-01-02T16:04:05.000+01:00", "time": 100, "request": {"method": "GET", "url": "https://api.example.com/v1/a?key=secret"},
  "response": {"status": 200, "headers": []},
  "timings": {"blocked": 10, "dns": 20, "connect": 30, "ssl": 25, "send": 0, "wait": 35, "receive": 5}},
 {"startedDateTime": "2026-01-02T15:04:07.000Z", "time": 1, "request": {"method": "GET", "url": "https://cdn.example.com/x.js"},
  "response": {"status": 0, "headers": []}, "timings": {}}
]}}`

func TestReadHAR(t *testing.T) {
	target, _ := url.Parse("https://API.example.com/v1/")
	all, host, err := readHAR("x.har", []byte(harText), target)
	if err != nil || len(all) != 2 || host != "api.example.com" {
		t.Fatalf("readHAR = %v, %q, %v; want two requests to api.example.com", all, host, err)
	}
	bySent(all)
	for i, want := range []seen{
		{sent: at("2026-01-02T15:04:05.06Z"), ended: at("2026-01-02T15:04:05.095Z"), status: 200, fields: map[string]string{}},
		{sent: at("2026-01-02T15:04:06Z"), ended: at("2026-01-02T15:04:06.029Z"), status: 429, fields: map[string]string{"retry-after": "7"}},
	} {
		got := all[i]
		if !got.sent.Equal(want.sent) || !got.ended.Equal(want.ended) || got.status != want.status || !reflect.DeepEqual(got.fields, want.fields) {
			t.Errorf("request %d is %v, want %v", i, got, want)
		}
	}
}

// Bad input of -observe gets one line, with its place.
func TestBadObserved(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x")
	for _, test := range []struct {
		text, url, want string
	}{
		{"", "", "x is empty; want a HAR, or lines"},
		{" \n\n", "", "x is empty"},
		{"# nothing\n", "", "x: no request in it; want 'TIME STATUS"},
		{"1767366245 200\n127.0.0.1 - - [10/Oct/2026:13:55:36 -0700] \"GET / HTTP/1.1\" 200 2326\n", "", "x:2: \"127.0.0.1 - - [10/Oct"},
		{"hello world 1\n", "", "x:1: time hello is not one; want one such as 2026-01-02T15:04:05.678Z, or Unix"},
		{"1767366245678 200\n", "", "x:1: time 1767366245678 is no Unix time in seconds"},
		{"-0.5 200\n", "", "x:1: time -0.5 is no Unix time in seconds"},
		{"0 200\n1767366245 429\n", "", "x: requests from 1970-01-01 to 2026-01-02; want ten years at most, and one clock"},
		{"0001-01-01T00:00:00Z 200\n9999-12-31T23:59:59Z 429\n", "", "x: requests from 0001-01-01 to 9999-12-31; want ten years"},
		{"1767366245 20\n", "", "x:1: status 20 is not one; want 100 to 999"},
		{"1767366245 200 12\n1767366245 200 123456\n", "", "x:2: latency 123456 is not one up to 1h"},
		{"1767366245 200 -5ms\n", "", "x:1: latency -5ms is not one"},
		{"\n{\"time\": 5\n", "", "x:2: unexpected end of JSON input; want {\"time\""},
		{"{\"time\": 1767366245.5}\n", "", "x:1: status \"\" is not one"},
		{"{\"log\": {\n\"entries\": 5}}", "", "x:2: log.entries is a number; want a HAR"},
		{"{\"log\": {\n\"entries\": [,]}}", "", "x:2: invalid character ','"},
		{"{\"log\": {}}", "", "x: no log.entries in it"},
		{`{"log": {"entries": [{"request": {"url": "https://a/"}}]}}`, "", "x: log.entries[0]: no startedDateTime"},
		{`{"log": {"entries": [{"startedDateTime": "today"}]}}`, "", "x:1: today is not a time such as"},
		{`{"log": {"entries": [{}]}}`, "", `log.entries[0]: request.url "" is not a URL; want one such as https://api.example.com/things`},
		{strings.ReplaceAll(harText, "https://cdn", "//:::cdn"), "", "log.entries[2]: request.url (no URL) is not a URL"},
		{harText, "", "x: it has requests to 2 hosts, as api.example.com and cdn.example.com; name a URL after it"},
		{harText, "https://elsewhere.example/", "x: none of its 3 requests is to https://elsewhere.example/"},
		{harText, "ftp://elsewhere.example/", "want a URL with http:// or https://"},
	} {
		if err := os.WriteFile(name, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"-observe", name}
		if test.url != "" {
			args = append(args, test.url)
		}
		badUsage(t, args, test.want)
	}
	badUsage(t, []string{"-observe", filepath.Join(dir, "no")}, "no: no such file or directory")
	badUsage(t, []string{"-observe", dir}, "is a directory; name a file")
}

// A URL beside lines, which have none to choose from, gets a note.
func TestURLOfLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, []byte("1767366245 200\n1767366246 429\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "x has no URLs, so all of its requests count; https://api.example.com/v1 chooses the vendor alone"
	for _, args := range [][]string{{"-observe", name, "https://api.example.com/v1"}, {"-limit", "-observe", name, "https://api.example.com/v1"}} {
		if stdout, stderr, _ := clitest.Play(t.Context(), Run, args...); strings.Count(stdout, want) != 1 {
			t.Errorf("find %q: %s%s\nwant a note: %s", args, stdout, stderr, want)
		}
	}
	if stdout, _, _ := clitest.Play(t.Context(), Run, "-observe", name); strings.Contains(stdout, "has no URLs") {
		t.Errorf("without a URL: %s", stdout)
	}
}

// badUsage runs the command, which must end with 2 and one line.
func badUsage(t *testing.T, args []string, want string) {
	t.Helper()
	stdout, stderr, code := clitest.Play(t.Context(), Run, args...)
	if code != 2 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("find %q:\ngot code %d, stdout %q, stderr %q\nwant code 2, nothing, one line with %q", args, code, stdout, stderr, want)
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"-limit", "no URL"},
		{"-limit api.example.com", "api.example.com: want a URL with http:// or https://"},
		{"-limit http://127.0.0.1:99999/", "http://127.0.0.1:99999/: the port must be a number from 1 to 65535"},
		{"-limit http://", "is not a URL"},
		{"-limit http://127.0.0.1 more", "more is too much"},
		{"-limit -requests=0 http://127.0.0.1", "-requests 0: must be from 1 to 65536"},
		{"-limit -refusals=-1 http://127.0.0.1", "-refusals -1: must be"},
		{"-limit -failures=0 http://127.0.0.1", "-failures 0: must be"},
		{"-limit -at-once=1001 http://127.0.0.1", "-at-once 1001: must be from 1 to 1000"},
		{"-limit -for=0s http://127.0.0.1", "-for 0s: must be above zero, and at most 168h"},
		{"-limit -timeout=2h http://127.0.0.1", "-timeout 2h0m0s: must be"},
		{"-limit -latency=1s http://127.0.0.1", "-latency: is for -observe"},
		{"-limit -latency=-1s http://127.0.0.1", "throttle: find: -latency: is for -observe"},
		{"-limit -H nothing http://127.0.0.1", "-H …: want 'Name: value'"},
		{"-limit -H Bearer:\tx -H token\tsecret http://127.0.0.1", "-H token…: want 'Name: value'"},
		{"-limit http://me:secret@[::1", "(not shown) is not a URL"},
		{"-limit -method=A\tB http://127.0.0.1", "is not a method"},
		{"-limit -d=@/no/such http://127.0.0.1", "-d: /no/such: no such file"},
		{"-limit -refused=4x3 http://127.0.0.1", "-refused 4x3: want statuses"},
		{"-limit -scenario=/no/such/x.yaml http://127.0.0.1", "-scenario: cannot write to /no/such"},
		{"-limit -log=/no/such/x http://127.0.0.1", "-log: cannot write to /no/such"},
		{"-limit -log=read_test.go http://127.0.0.1", `-log: read_test.go is there and was not written by find -log`},
		{"-limit -json -scenario=- http://127.0.0.1", "only one can go to standard output"},
		{"-observe x -requests 5", "-requests: is for -limit; -observe sends nothing"},
		{"-limit -x http://127.0.0.1", "flag -x is not known; run 'throttle find -limit -h'"},
		{"-limit http://api.example.com/", "api.example.com is not this machine, and there is no terminal to ask on; say -yes"},
		{"-limit http://127.0.0.1.example.com/", "is not this machine"},
		{"-limit http://10.0.0.1/", "is not this machine"},
	} {
		badUsage(t, strings.Split(test.args, " "), test.want)
	}
}

func TestWanted(t *testing.T) {
	for args, want := range map[string]bool{
		"http://x": false, "-limit http://x": true, "http://x --limit": true, "-observe=x": true,
		"-observe x": true, "-limits": false, "limit": false, "-- curl -limit": false,
	} {
		if got := Wanted(strings.Fields(args)); got != want {
			t.Errorf("Wanted(%q) = %t, want %t", args, got, want)
		}
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add("1767366245.678 200 12ms\n")
	f.Add(`{"time":1767366245.678901,"status":"200","latency":0.25}`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readLog("x", []byte(text), time.Second)
		for _, s := range all {
			if s.ended.Before(s.sent) || s.status < 0 {
				t.Errorf("%v", s)
			}
		}
		if err == nil && len(all) == 0 {
			t.Error("no requests and no error")
		}
		if err != nil && strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%q has several lines", err)
		}
	})
}
