package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/accesslog"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/rules"
)

var start = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// written writes a file of a test.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// logged writes a day as a log.
func logged(t *testing.T, d *traffic) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.write(&b); err != nil {
		t.Fatal(err)
	}
	return written(t, "access.log", b.String())
}

// lines are n lines of the common format, one each step, from so many addresses in turn.
func lines(n, addresses int, step time.Duration, path string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "192.0.2.%d - - [%s] \"GET %s HTTP/1.1\" 200 1\n", 1+i%addresses, start.Add(time.Duration(i)*step).Format("02/Jan/2006:15:04:05 -0700"), path)
	}
	return b.String()
}

// inFolder runs a test in a folder with files, so that messages have no paths.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
}

func reportOf(t *testing.T, args ...string) *report {
	t.Helper()
	out, errs, code := clitest.Play(t.Context(), Run, append([]string{"-json"}, args...)...)
	r := new(report)
	if err := json.Unmarshal([]byte(out), r); err != nil || code != 0 {
		t.Fatalf("replay %q: %d, %s%v", args, code, errs, err)
	}
	return r
}

const perAddress = "rules:\n  - {name: per-address, key: address, limits: 10/min fixed-window}\n"

func TestText(t *testing.T) {
	day := traffic{seed: 3, start: start, callers: 400, flooding: 2, pages: 2000, perHour: 7200}
	var log bytes.Buffer
	if err := day.write(&log); err != nil {
		t.Fatal(err)
	}
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	inFolder(t, map[string]string{"rules.yaml": `rules:
  - {name: all, limits: 50/s}
  - {name: per-address, key: address, limits: [5/s burst 10, 60/min]}
  - {name: login, match: {paths: /login, methods: POST}, key: address, limits: 10/min}
  - {name: tried, key: address, limits: 30/min, shadow: true}
`, "access.log": log.String()})
	out, errs, code := clitest.Play(t.Context(), Run, "-rules", "rules.yaml", "-factor", "2", "-salt", "x", "-top", "3", "-suggest", "address", "-touch", "2%", "access.log")
	t.Chdir(home)
	if errs != "" || code != 0 {
		t.Errorf("%d, %s", code, errs)
	}
	clitest.Golden(t, "report.txt", out)
	if strings.Contains(out, "10.0.") || strings.Contains(out, "11.0.") {
		t.Error("an address is shown")
	}
}

func TestFiguresOfAReplay(t *testing.T) {
	log := written(t, "a.log", lines(120, 2, time.Second, "/")) // each of two 30 times a minute
	file := written(t, "r.yaml", perAddress)
	wider := written(t, "w.yaml", "rules:\n  - {name: per-address, key: address, limits: 12/min fixed-window}\n")
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"alone", nil, "[80 0 0]"},
		{"beside a wider limit", []string{"-rules", wider}, "[80 0 0] [72 0 8]"},
		{"times factors", []string{"-factor", "0.5,3"}, "[80 0 0] [100 20 0] [0 0 80]"},
	} {
		r := reportOf(t, append([]string{"-rules", file, log}, test.args...)...)
		var got []string
		for _, s := range r.Replay.Sides {
			got = append(got, fmt.Sprint([]int64{s.Refused, s.NewlyRefused, s.NewlyAdmitted}))
		}
		if strings.Join(got, " ") != test.want || r.Requests != 120 {
			t.Errorf("%s: %v of %d, want %s", test.name, got, r.Requests, test.want)
		}
	}
}

// Addresses and names are shown only if asked for; a salt makes digests the same in each
// run.
func TestKeysAreHidden(t *testing.T) {
	log, file := written(t, "a.log", lines(60, 1, time.Second, "/")), written(t, "r.yaml", perAddress)
	name := func(args ...string) string {
		r := reportOf(t, append([]string{"-rules", file, log}, args...)...)
		if len(r.Replay.Sides[0].Keys) != 1 {
			t.Fatalf("keys %+v", r.Replay.Sides[0].Keys)
		}
		return r.Replay.Sides[0].Keys[0].Name
	}
	if got := name("-show-keys"); got != "address=192.0.2.1" {
		t.Errorf("shown as %s", got)
	}
	if a, b := name(), name(); a == b || strings.Contains(a, "192") || len(a) != 16 {
		t.Errorf("hidden as %s and %s", a, b)
	}
	if a, b, c := name("-salt", "x"), name("-salt", "x"), name("-salt", "y"); a != b || a == c {
		t.Errorf("salted as %s, %s and %s", a, b, c)
	}
}

// What a log knows beyond the usual is there for rules: fields of the header, values,
// costs, and the address behind trusted proxies.
func TestRequestsOfALog(t *testing.T) {
	file := written(t, "r.yaml", `
proxies: {trusted: 10.0.0.0/8}
rules:
  - {name: address, key: address, limits: 3/h}
  - {name: key, key: "header:X-Api-Key", missing: pass, limits: 2/h}
  - {name: plan, key: plan, missing: pass, cost: size, limits: 100/h}
  - {name: host, match: {hosts: api.example.com, paths: /a/**, methods: POST}, limits: 1/h}
  - {name: agent, match: {headers: {User-Agent: "bot*"}}, limits: 0/h}
  - {name: user, match: {client: known}, key: client, limits: 1/h}
`)
	for _, test := range []struct{ name, line, want string }{
		{"addresses behind a proxy", `"ip":"10.0.0.1","xff":"203.0.113.%d, 10.0.0.2"`, "[]"},
		{"one address behind a proxy", `"ip":"10.0.0.1","xff":"198.51.100.%d, 203.0.113.7"`, "[address=7]"},
		{"what no proxy wrote", `"ip":"203.0.113.7","xff":"198.51.100.%d"`, "[address=7]"},
		{"no address but that of the last proxy", `"xff":"198.51.100.%d"`, "[]"},
		{"a field of the header", `"ip":"203.0.113.%d","key":"k"`, "[key=8]"},
		{"a cost", `"ip":"203.0.113.%d","plan":"gold","bytes":30`, "[plan=7]"},
		{"a host, a path and a method", `"ip":"203.0.113.%d","host":"API.example.com:443","method":"POST","uri":"http://x/a/b%%20c?d"`, "[host=9]"},
		{"an agent", `"ip":"203.0.113.%d","user_agent":"bot/1"`, "[agent=10]"},
		{"a client", `"ip":"203.0.113.%d","user":"u"`, "[user=9]"},
	} {
		var b strings.Builder
		for i := range 10 {
			fmt.Fprintf(&b, `{"ts":%d,`+test.line+"}\n", 1795371261+i, i)
		}
		r := reportOf(t, "-rules", file, "-fields", "header:x-api-key=key,value:plan=plan,cost:size=bytes", written(t, "a.json", b.String()))
		var got []string
		for _, rule := range r.Replay.Sides[0].Rules {
			if rule.Refused > 0 {
				got = append(got, fmt.Sprintf("%s=%d", rule.Name, rule.Refused))
			}
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%s: refused %v, want %s", test.name, got, test.want)
		}
	}
}

// A limit of several a second is fair to a log of whole seconds only if its requests are
// spread.
func TestSpread(t *testing.T) {
	var b strings.Builder
	for i := range 60 {
		b.WriteString(lines(4, 1, 0, fmt.Sprintf("/%d", i)))
	}
	log := written(t, "a.log", strings.ReplaceAll(b.String(), "00:00:00", "00:00:07"))
	file := written(t, "r.yaml", "rules:\n  - {name: a, limits: 240/s burst 2}\n")
	if n := reportOf(t, "-rules", file, log).Replay.Sides[0].Refused; n != 238 {
		t.Errorf("%d of 240 in one instant refused, want 238", n)
	}
	if n := reportOf(t, "-rules", file, "-spread", log).Replay.Sides[0].Refused; n != 0 {
		t.Errorf("%d of 240 in one second refused, want none", n)
	}
}

// What is proposed from one day refuses, on a second day of the same traffic, no more
// than the given share of its honest callers, and all that flood.
func TestProposalOnASecondDay(t *testing.T) {
	const callers, flooding = 2000, 4
	first := traffic{seed: 11, start: start, callers: callers, flooding: flooding, pages: 3000, perHour: 7200}
	second := first
	second.seed, second.start = 12, start.Add(24*time.Hour)
	file := filepath.Join(t.TempDir(), "rules.json")
	out, errs, code := clitest.Play(t.Context(), Run, "-suggest", "address", "-touch", "0.4%", "-o", file, logged(t, &first))
	if code != 0 || !strings.Contains(out, "at most 0.4% of the honest") || !strings.Contains(out, "4 keys are flooding and left out, 2,000 honest") {
		t.Fatalf("%d, %s%s", code, errs, out)
	}
	r := reportOf(t, "-rules", file, "-top", "1000", "-show-keys", logged(t, &second))
	honest, floods := 0, 0
	for _, k := range r.Replay.Sides[0].Keys {
		if strings.HasPrefix(k.Name, "address=11.") {
			floods++
		} else {
			honest++
		}
	}
	if honest > callers*4/1000 || floods != flooding {
		t.Errorf("%d of %d honest callers and %d of %d that flood refused: %+v", honest, callers, floods, flooding, r.Replay.Sides[0].Rules)
	}
}

// A proposal may be for some requests alone.
func TestProposalForSomeRequests(t *testing.T) {
	day := traffic{seed: 5, start: start, callers: 700, flooding: 1, pages: 2000, perHour: 7200}
	log, file := logged(t, &day), filepath.Join(t.TempDir(), "rules.json")
	all := reportOf(t, "-suggest", "address", "-touch", "5%", log)
	some := reportOf(t, "-suggest", "address", "-touch", "5%", "-only", "POST /login", "-o", file, log)
	if all.Proposal.Honest != 700 || some.Proposal.Honest < 100 || some.Proposal.Honest > 400 {
		t.Errorf("honest keys %d of all and %d of POST /login", all.Proposal.Honest, some.Proposal.Honest)
	}
	r := reportOf(t, "-rules", file, log)
	keys := int64(some.Proposal.Honest + some.Proposal.Flooding)
	if one := r.Replay.Sides[0].Rules[0]; one.Asked == 0 || one.Asked >= r.Requests*2/3 || one.Keys != keys {
		t.Errorf("rule %+v of %d requests, want %d keys of POST /login", one, r.Requests, keys)
	}
}

// A trace is read by the scenarios of 'throttle sim'.
func TestTrace(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "trace.txt")
	log := written(t, "a.log", lines(5, 2, 1500*time.Millisecond, "/"))
	if _, errs, code := clitest.Play(t.Context(), Run, "-trace", name, log); code != 0 {
		t.Fatal(errs)
	}
	s, err := scenario.Parse(filepath.Join(folder, "s.yaml"), []byte("duration: 10s\nserver: {rate: 9/s}\nclients: [{arrivals: {trace: trace.txt}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(s.Clients[0].Trace), "[0s 1s 3s 4s 6s]"; got != want {
		t.Errorf("trace %s, want %s", got, want)
	}
	unsorted := written(t, "b.log", lines(3, 1, time.Minute, "/")+lines(1, 1, time.Second, "/"))
	if out, _, _ := clitest.Play(t.Context(), Run, "-trace", "-", unsorted); !strings.HasSuffix(out, "\n0.000000\n60.000000\n60.000000\n120.000000\n") {
		t.Errorf("out of order: %s", out)
	}
	out, _, code := clitest.Play(t.Context(), Run, "-trace", "-", log)
	if want := "# arrivals of 5 requests from 2026-11-20T00:00:00Z on\n0.000000\n1.000000\n3.000000\n4.000000\n6.000000\n"; code != 0 || out != want {
		t.Errorf("to standard output: %d, %s", code, out)
	}
}

// Each mistake is one line that says what, where and what would be right; exit code 2.
func TestMistakes(t *testing.T) {
	inFolder(t, map[string]string{
		"good.log": lines(3, 1, time.Second, "/"), "empty.log": "", "words.log": "these are\nsome words\n",
		"half.log": lines(3, 1, time.Second, "/") + "x\n", "r.yaml": perAddress, "bad.yaml": "rules:\n  - {name: a, limits: 10/parsec}\n",
		"value.yaml": "rules:\n  - {name: a, key: customer, limits: 1/s}\n", "app.json": `{"a": 1}` + "\n",
	})
	for _, test := range []struct{ args, want string }{
		{"", "replay: no log; write 'throttle replay -rules FILE LOG'"},
		{"good.log", "replay: nothing to replay; write -rules FILE, -suggest KEY or -trace FILE"},
		{"-rules r.yaml empty.log", "replay: empty.log: is empty; there is no request to replay"},
		{"-rules r.yaml words.log", `replay: words.log:1: the format is not known; name it by -format: envoy, nginx, combined, common, vhost, json, csv, re:EXPRESSION, or a text with $NAME as the log_format of nginx; the line is "these are"`},
		{"-rules r.yaml app.json", `replay: app.json:1: as format json: no time among its names; name it by -fields time=NAME; the line is`},
		{"-rules r.yaml -format json good.log", `replay: good.log:1: as format json: not an object of JSON: "192.0.2.1 - - [20/Nov/2026:00:00:00 +000..."; 3 of 3 lines are bad, and at most 1% may be; name the format by -format`},
		{"-rules r.yaml half.log", `replay: half.log:4: as format common: no " " after $remote_addr; 1 of 4 lines are bad, and at most 1% may be; name the format by -format`},
		{"-rules r.yaml none.log", "replay: open none.log: no such file or directory"},
		{"-rules bad.yaml good.log", "replay: bad.yaml:2:23: rules[0].limits: "},
		{"-rules value.yaml good.log", `replay: value.yaml:2:20: rules[0].key[0]: unknown part "customer"`},
		{"-rules none.yaml good.log", "replay: open none.yaml: no such file or directory"},
		{"-rules r.yaml -format apache good.log", `replay: -format: format "apache" is not known`},
		{"-rules r.yaml -fields x good.log", `invalid value "x" for flag -fields: "x" is not TARGET=SOURCE, as in address=remote_ip`},
		{"-rules r.yaml -bad 2 good.log", "must be a share from 0% to 100%, as in 0.1%"},
		{"-rules r.yaml -top 0 good.log", "replay: -top 0: must be from 1 to 10000"},
		{"-rules r.yaml -window -1s good.log", "replay: -window -1s: must be from 0s to 1h0m0s"},
		{"-rules r.yaml -keys 0 good.log", "replay: -keys 0: must be from 1 to 100000000"},
		{"-rules r.yaml -factor 0 good.log", "0 must be from 0.001 to 1000"},
		{"-rules r.yaml -factor 1,2,3,4,5,6,7,8 good.log", "replay: 9 versions of the rules; at most 8"},
		{"-factor 2 -suggest address good.log", "replay: -factor is for rules; write -rules FILE too"},
		{"-rules r.yaml -touch 1% good.log", "replay: -touch is for a proposal; write -suggest KEY too"},
		{"-suggest address -touch 60% good.log", "replay: -touch 60%: must be above 0% and below 50%"},
		{"-suggest customer good.log", `replay: -suggest "customer": unknown part "customer"; write address`},
		{"-suggest address -flood 10/7s good.log", "replay: -flood 10/7s: must be above zero, and by 10s, min, h or d"},
		{"-suggest address -only [a good.log", `replay: -only "[a": `},
		{"-rules r.yaml -only /a good.log", "replay: -only is for a proposal; write -suggest KEY too"},
		{"-suggest address -o x/y.json good.log", "-o: cannot write to x"},
		{"-suggest address -trace - good.log", "replay: -suggest and -trace -: only one can go to standard output"},
		{"-rules - -", "replay: - can be read once; write the name of a file"},
		{"-rules r.yaml good.log words.log ./good.log", `replay: good.log and ./good.log are one log, and its requests would count twice`},
		{"-rules r.yaml -trace app.json good.log", `-trace: app.json is there and was not written by replay -trace`},
		{"-rules r.yaml -show-keys -salt x good.log", "replay: -show-keys and -salt"},
	} {
		_, errs, code := clitest.Play(t.Context(), Run, strings.Fields(test.args)...)
		if !strings.Contains(errs, test.want) || strings.Count(errs, "\n") != 1 || code != 2 {
			t.Errorf("replay %s: %d, %s want %s", test.args, code, errs, test.want)
		}
	}
	if _, errs, code := clitest.Play(t.Context(), Run, "-suggest", "address", "-o", "x.json", "good.log"); code != 1 || !strings.Contains(errs, "nothing to propose: the log covers 2 s") {
		t.Errorf("a short log: %d, %s", code, errs)
	}
}

// What a reader of the figures must know is said.
func TestNotes(t *testing.T) {
	file := written(t, "r.yaml", "rules:\n  - {name: a, key: address, in_flight: 3, cost: size, limits: 10/s}\n")
	_, _, code := clitest.Play(t.Context(), Run, "-rules", file, written(t, "a.log", lines(2, 1, time.Second, "/")))
	if code != 2 { // the cost is not known
		t.Errorf("a cost that the log has not: %d", code)
	}
	log := lines(30, 1, time.Second, "/") + lines(3, 1, time.Second, "/")
	r := reportOf(t, "-rules", file, "-fields", "cost:size=bytes", "-format", "$remote_addr - - [$time_local] \"$request\" $status $bytes", written(t, "a.log", strings.ReplaceAll(log, "200 1", "429 1")))
	for _, want := range []string{"rule a: requests in flight are not replayed", "all times are whole seconds", "33 requests were answered with 429", "3 requests were out of order by more than -window 10s, or behind more than 20,000 lines or 64 MiB that waited"} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), want) {
			t.Errorf("notes %q, want %s", r.Notes, want)
		}
	}
	if r.Throttled != 33 {
		t.Errorf("%d throttled, want 33", r.Throttled)
	}
}

// One line with a time of another century is drawn like all others.
func TestChartOfCenturies(t *testing.T) {
	late := strings.ReplaceAll(lines(3, 1, time.Second, "/"), fmt.Sprint("/", start.Year(), ":"), "/2537:")
	log, file := written(t, "a.log", lines(50, 1, time.Second, "/")+late), written(t, "r.yaml", perAddress)
	out, errs, code := clitest.Play(t.Context(), Run, "-rules", file, log)
	if code != 0 || !strings.Contains(out, "53 requests from "+start.Format("2006")) || !strings.Contains(out, "each 1792 d from ") {
		t.Errorf("%d, %s%s", code, errs, out)
	}
}

func TestReplayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, errs, code := clitest.Play(ctx, Run, "-rules", written(t, "r.yaml", perAddress), written(t, "a.log", lines(50, 1, time.Second, "/")))
	if code != 1 || errs != "throttle: replay: interrupted\n" {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestTimes(t *testing.T) {
	c, err := rules.Parse([]byte(`{"version": "v", "rules": [{"name": "a", "key": "address", "limits": ["10/s burst 3", "0/s", "unlimited"], "overrides": [{"key": "192.0.2.1", "limits": "1/h"}], "shadow": {"limits": "5/s"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(times(c.Set(), 0.5))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"v-x0.5"`, `"5/s burst 2"`, `"0/s"`, `"unlimited"`, `"limits":"1/h"`, `"3/s"`} {
		if !strings.Contains(strings.ReplaceAll(string(text), `["1/h"]`, `"1/h"`), want) {
			t.Errorf("times 0.5 = %s, want %s", text, want)
		}
	}
}

func TestAddressOf(t *testing.T) {
	for forwarded, want := range map[string]string{"": "invalid IP", "198.51.100.1, 203.0.113.7": "203.0.113.7", "203.0.113.7": "203.0.113.7", "x": "invalid IP", "1.2.3.4, ": "invalid IP"} {
		if got := addressOf(&accesslog.Entry{Forwarded: forwarded}, nil).String(); got != want {
			t.Errorf("address of %q = %s, want %s", forwarded, got, want)
		}
	}
}
