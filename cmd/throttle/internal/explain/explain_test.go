package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
)

// explained runs the command on a text.
func explained(t *testing.T, text string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	err := Run(context.Background(), args, strings.NewReader(text), &out, &errs)
	code = exit.Code(err, &errs)
	return out.String(), errs.String(), code
}

// TestExplainFixtures: what each recorded answer is understood to say.
func TestExplainFixtures(t *testing.T) {
	files, err := filepath.Glob("../../../../signal/testdata/*.txt")
	if err != nil || len(files) < 90 {
		t.Fatalf("found %d fixtures, %v", len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := explained(t, string(text))
		if code != 0 || stderr != "" {
			t.Errorf("%s: code %d, %s", file, code, stderr)
		}
		all.WriteString("== " + filepath.Base(file) + "\n" + stdout + "\n")
		crlf, _, _ := explained(t, strings.ReplaceAll(string(text), "\n", "\r\n"))
		if crlf != stdout {
			t.Errorf("%s with CRLF is explained as\n%s\nwant\n%s", file, crlf, stdout)
		}
	}
	clitest.Golden(t, "explain.golden", all.String())
}

func TestExplainJSON(t *testing.T) {
	text, err := os.ReadFile("../../../../signal/testdata/ietf-draft08.txt")
	if err != nil {
		t.Fatal(err)
	}
	stdout, _, code := explained(t, string(text), "-json")
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 {
		t.Fatalf("code %d, %v in %s", code, err, stdout)
	}
	clitest.Golden(t, "explain-json.golden", stdout)
}

// What is said, and when nothing is: the last answer, headers alone, comments.
func TestExplainInputs(t *testing.T) {
	for _, test := range []struct {
		name, text string
		args       []string
		want       []string
	}{
		{"no body, no empty line", "HTTP/1.1 429 Too Many Requests\nRetry-After: 7", nil, []string{"wait         7 s\n", "decided by   Retry-After\n"}},
		{"HTTP/2", "HTTP/2 429\nretry-after: 7\n\n", nil, []string{"decided by   retry-after\n"}},
		{"after a redirect", "HTTP/1.1 301 Moved\r\nRetry-After: 1\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/2 429 \r\nRetry-After: 9\r\n\r\nbody", nil, []string{"status       HTTP/2 429\n", "the last of 3 answers", "wait         9 s\n"}},
		{"no status line", "Retry-After: 7\n", []string{"-status", "503"}, []string{"status       503\n", "wait         7 s\n"}},
		{"a folded line", "HTTP/1.1 429 x\nRetry-After:\n  7\n", nil, []string{"wait         7 s\n"}},
		{"several lines", "HTTP/1.1 200 OK\nRateLimit: \"a\";r=5\nRateLimit: \"b\";r=3\n", nil, []string{"limit        a: 5 requests left\n", "limit        b: 3 requests left\n"}},
		{"two Retry-After", "HTTP/1.1 429 x\nRetry-After: 7\nRetry-After: 9\n", nil, []string{"wait         9 s\n"}},
		{"a limit twice", "HTTP/1.1 200 OK\nRateLimit-Limit: 5\nRateLimit-Remaining: 4\nRateLimit-Remaining: 3\n", nil, []string{"limit        4 of 5 requests left\n", "RateLimit-Remaining: 3 -> ignored: the first line of that name counts\n"}},
		{"a comment names the host", "# host: api.x.com\nHTTP/1.1 429 x\n", nil, []string{"read as      api.x.com, preset x\n"}},
		{"a flag goes before it", "# host: api.x.com\nHTTP/1.1 429 x\n", []string{"-preset", "kong"}, []string{"read as      preset kong\n"}},
		{"a host", "HTTP/1.1 429 x\n", []string{"-host", "API.GitHub.com:443"}, []string{"preset github\n"}},
		{"a field of another's", "HTTP/1.1 200 OK\nX-My-Quota: 3\n", nil, []string{"X-My-Quota: 3 -> ignored: the preset general makes no use of it here\n"}},
		{"a body that nobody reads", "HTTP/1.1 200 OK\n\n{}", nil, []string{"body: {} -> ignored: the preset general reads no body of 200\n"}},
		{"a packed body", "HTTP/1.1 429 x\nContent-Encoding: gzip\n\n\x1f\x8b", nil, []string{"its Content-Encoding is gzip"}},
		{"control characters", "HTTP/1.1 429 x\nRetry-After: a\x1b[31m\n", nil, []string{`a\x1b[31m -> ignored`}},
		{"chunks off the wire", "HTTP/1.1 429 x\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{\"retry_after\": 7\r\n1\r\n}\r\n0\r\n\r\n", []string{"-host", "discord.com"}, []string{"wait         7 s\n"}},
		{"chunks that curl has joined", "HTTP/1.1 429 x\r\nTransfer-Encoding: chunked\r\n\r\n{\"retry_after\": 7}", []string{"-host", "discord.com"}, []string{"wait         7 s\n"}},
		{"a mark of Windows", "\ufeffHTTP/1.1 429 x\r\nRetry-After: 7\r\n", nil, []string{"wait         7 s\n"}},
		{"nothing said", "HTTP/1.1 200 OK\n\n", nil, []string{"verdict      served\n"}},
	} {
		stdout, stderr, code := explained(t, test.text, test.args...)
		if code != 0 || stderr != "" {
			t.Errorf("%s: code %d, %s", test.name, code, stderr)
		}
		for _, want := range test.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: got\n%s\nwant ...%q...", test.name, stdout, want)
			}
		}
	}
}

// TestExplainDecidesNow: without a Date, dates count from now.
func TestExplainDecidesNow(t *testing.T) {
	a, err := readAnswer([]byte("HTTP/1.1 429 x\nRetry-After: Fri, 06 Nov 2026 08:50:07 GMT\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := explanationOf(a, "", "", time.Date(2026, 11, 6, 8, 49, 37, 0, time.UTC))
	if err != nil || e.reading.After.V != 30*time.Second {
		t.Errorf("wait %v, %v; want 30 s", e.reading.After, err)
	}
}

func TestExplainUsage(t *testing.T) {
	for _, test := range []struct {
		text string
		args []string
		want string
	}{
		{"", nil, "standard input is empty"},
		{"# only a comment\n\n", nil, "standard input is empty"},
		{"nonsense\n", nil, "line 1: nonsense is not a status line; want one such as 'HTTP/1.1 429 Too Many Requests', or say -status 429"},
		{"\x00\x01\x02", nil, `line 1: "\x00\x01\x02" is not a status line`},
		{"HTTP/1.1 abc\n", nil, "is not a status line"},
		{"HTTP/1.1 99 x\n", nil, "is not a status line"},
		{"\n# x\nHTTP/1.1 429 x\nRetry-After 7\n", nil, `line 4: "Retry-After 7" is not a header field`},
		{"HTTP/1.1 429 x\n: 7\n", nil, "line 2: "},
		{"HTTP/1.1 301 x\n\nHTTP/1.1\n", nil, "line 3: HTTP/1.1 is not a status line"},
		{"HTTP/1.1 429 x\n", []string{"-preset", "githob"}, "preset githob is not known; did you mean github?"},
		{"HTTP/1.1 429 x\n", []string{"-preset", "nobody"}, "preset nobody is not known; known are airtable, "},
		{"# preset: nobody\nHTTP/1.1 429 x\n", nil, "preset nobody is not known"},
		{"", []string{"-preset", "kong", "-host", "x"}, "only one can choose the preset"},
		{"", []string{"-host", "https://api.github.com/zen"}, "-host https://api.github.com/zen: must be a host without scheme and path, as api.github.com"},
		{"", []string{"-presets", "-json"}, "-json: is for a response; leave it out with -presets"},
		{"", []string{"-status", "42"}, "-status 42: must be from 100 to 999"},
		{"", []string{"answer.txt"}, "write 'throttle explain < answer.txt'"},
		{"", []string{"-"}, "standard input is empty"}, // as - means with other commands
		{"", []string{"-x"}, "flag -x is not known; run 'throttle explain -h'"},
	} {
		stdout, stderr, code := explained(t, test.text, test.args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("explain %q < %q: code %d, stdout %q, stderr %q; want 2, nothing, ...%q... in one line", test.args, test.text, code, stdout, stderr, test.want)
		}
	}
}

func TestExplainHelp(t *testing.T) {
	stdout, _, code := explained(t, "", "-h")
	if code != 0 || !strings.Contains(stdout, "Examples:\n  curl -si") {
		t.Errorf("code %d, %s", code, stdout)
	}
	stdout, _, code = explained(t, "", "-presets")
	if code != 0 || !strings.Contains(stdout, "\nkong\n") {
		t.Errorf("code %d, %s", code, stdout)
	}
}

// torn is a reader that fails.
type torn struct{}

func (torn) Read([]byte) (int, error) { return 0, errors.New("no such luck") }

func TestExplainCannotRead(t *testing.T) {
	err := Run(t.Context(), nil, torn{}, &bytes.Buffer{}, &bytes.Buffer{})
	var errs bytes.Buffer
	if code := exit.Code(err, &errs); code != 2 || !strings.Contains(errs.String(), "no such luck") {
		t.Errorf("code %d, %s; want 2 and the reason", code, errs.String())
	}
}

// FuzzExplain: any input is explained or refused, in one line.
func FuzzExplain(f *testing.F) {
	f.Add("HTTP/1.1 429 x\nRetry-After: 7\n\n{}", "")
	f.Add("# host: api.github.com\r\nHTTP/2 403\r\nX-RateLimit-Remaining: 0\r\n\r\n", "discord.com")
	f.Fuzz(func(t *testing.T, text, host string) {
		a, err := readAnswer([]byte(text), 0)
		if err != nil {
			return
		}
		e, err := explanationOf(a, host, "", time.Unix(1793954977, 0))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := errors.Join(e.write(&b), e.writeJSON(&b)); err != nil {
			t.Error(err)
		}
		if bytes.ContainsFunc(b.Bytes(), func(r rune) bool { return r == '\x1b' || r == '\r' }) {
			t.Errorf("explanation of %q holds control characters:\n%q", text, b.String())
		}
	})
}

// What curl -v prints is read without its marks, the last answer of several.
func TestExplainCurlVerbose(t *testing.T) {
	text := strings.ReplaceAll(`# host: api.example.org
*   Trying 192.0.2.1:443...
* Connected to api.example.org (192.0.2.1) port 443
> GET /old HTTP/1.1
> Retry-After: 99
>
* Request completely sent off
< HTTP/1.1 302 Found
< Location: /new
< Retry-After: 50
<
{ [5 bytes data]
* Connection #0 to host api.example.org left intact
> GET /new HTTP/1.1
>
< HTTP/2 429
< Retry-After: 7
< RateLimit: "default";r=0;t=7
< RateLimit-Policy: "default";q=20;w=1;throttle-burst=5
<
{ [17 bytes data]
{"error": "slow"}
* Connection #0 to host api.example.org left intact
`, "\n", "\r\n")
	for _, text := range []string{text, strings.ReplaceAll(text, "\r\n", "\n")} {
		stdout, stderr, code := explained(t, text)
		for _, want := range []string{"read as      api.example.org", "status       HTTP/2 429\n", "wait         7 s\n", "0 of 5 requests left, limit 20, window 1s"} {
			if !strings.Contains(stdout, want) || code != 0 {
				t.Errorf("code %d, %s\n%s\nwant ...%q...", code, stderr, stdout, want)
			}
		}
		if strings.Contains(stdout, "99") || strings.Contains(stdout, "Connection") {
			t.Errorf("%s\nwant nothing of the request or of curl", stdout)
		}
	}
}

// A 503 that says nothing more is said to be unsure; the page of nginx's limit_req is not.
func TestExplainUnsure(t *testing.T) {
	for body, want := range map[string]bool{
		"": true,
		"<center><h1>503 Service Temporarily Unavailable</h1></center>\r\n<hr><center>nginx</center>": false,
	} {
		stdout, stderr, code := explained(t, "HTTP/1.1 503 Service Unavailable\r\n\r\n"+body)
		if got := strings.Contains(stdout, "refused for load, or failed"); got != want || code != 0 {
			t.Errorf("%q is unsure: %v, want %v; exit code %d, %s\n%s", body, got, want, code, stderr, stdout)
		}
	}
}
