package scenario

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

const fullScenario = `# every field there is
name: full
duration: 30m
server:
  limit: token-bucket
  rate: 600/2m
  burst: 8
  start: 3
  hints: [remaining, retry-after, reset, policy]
  errors: 0.01
  down: 0.2
  changes:
    - {at: 10m, rate: 8/s, down: 0.1}
    - at: 20m
      rate: 0/s
      retry_after: 30s
network: {latency: 50ms, spread: 0.3}
stop: {remaining: 1}
clients:
  - {processes: 3, workers: 4, join: 2m, every: 10s, leave: 20m}
  - {policy: none, rival: true, work: 500}
  - {policy: {name: backoff, factor: 2, cap: 30s}, arrivals: 180/min}
  - {policy: "backoff(factor=2, cap=30s)", on: 10s, off: 1m30s}
`

func TestScenarioFile(t *testing.T) {
	s, err := Parse("x.yaml", []byte("\ufeff"+strings.ReplaceAll(fullScenario, "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	const second = time.Second
	policies := [4]string{"", "none", "backoff(factor=2,cap=30s)", "backoff(factor=2,cap=30s)"}
	for i, want := range policies {
		got := ""
		if p := s.Clients[i].Policy; p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("policy of clients %d is %q, want %q", i+1, got, want)
		}
		s.Clients[i].Policy = nil
	}
	want := sim.Scenario{
		Name: "full", Duration: 1800 * second,
		Server: sim.Server{
			Limit:  limit.Limit{Count: 600, Period: 120 * second, Burst: 8},
			Start:  pace.Some[int64](3),
			Hints:  sim.Hints{Remaining: true, RetryAfter: true, Reset: true, Policy: true},
			Errors: 0.01, Down: 0.2,
			Changes: []sim.Change{
				{At: 600 * second, Count: 8, Period: second, Down: 0.1}, {At: 1200 * second, Count: 0, Period: second, RetryAfter: 30 * second},
			},
		},
		Network: sim.Network{Latency: second / 20, Spread: 0.3},
		Stop:    sim.Stop{Remaining: pace.Some[int64](1)},
		Clients: []sim.Group{
			{Processes: 3, Workers: 4, Join: 120 * second, Every: 10 * second, Leave: 1200 * second},
			{Processes: 1, Workers: 1, Rival: true, Work: 500},
			{Processes: 1, Workers: 1, Arrivals: 3},
			{Processes: 1, Workers: 1, On: 10 * second, Off: 90 * second},
		},
	}
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("Parse =\n%s\nwant\n%s", got, want)
	}
}

func TestScenarioDefaults(t *testing.T) {
	bucket := func(count int64, period time.Duration, burst int64) limit.Limit {
		return limit.Limit{Count: count, Period: period, Burst: burst}
	}
	for _, test := range []struct {
		server string
		want   limit.Limit
	}{
		{"{rate: 4/s}", bucket(4, time.Second, 4)},
		{"{rate: 600/1m}", bucket(600, time.Minute, 10)},
		{"{rate: 75/min, limit: gcra}", bucket(75, time.Minute, 1)},
		{"{rate: 5000/h}", bucket(5000, time.Hour, 1)},
		{"{rate: 0/s}\nduration: 1h", bucket(0, time.Second, 1)},
		{"{rate: 10/ms}", bucket(10, time.Millisecond, 10_000)},
		{"{rate: 100/10s, limit: fixed-window}", limit.Limit{Kind: limit.FixedWindow, Count: 100, Period: 10 * time.Second}},
		{"{rate: 100/10s, limit: sliding-log}", limit.Limit{Kind: limit.SlidingLog, Count: 100, Period: 10 * time.Second}},
		{"{limit: none}", limit.Limit{}},
	} {
		s, err := Parse("some.yaml", []byte("server: "+test.server+"\nclients: [{work: 10}]\n"))
		if err != nil || s.Server.Limit != test.want {
			t.Errorf("server %s = %+v, %v; want %+v", test.server, s.Server.Limit, err, test.want)
		}
		if s.Name != "some" || s.Network != (sim.Network{Latency: 100 * time.Millisecond, Spread: 0.2}) || s.Duration != maxTime && !strings.Contains(test.server, "duration") || s.Server.Start.OK {
			t.Errorf("server %s: got %+v, want the defaults", test.server, s)
		}
	}
}

// badScenarios are refused with this line and column, and words.
var badScenarios = []struct {
	text string
	want string
}{
	// The file as a whole.
	{"", "1:1: empty; a scenario needs"},
	{"\n# nothing\n", "1:1: empty"},
	{"---\n", "1:1: empty"},
	{"~\n", "1:1: empty"},
	{"hello\n", "1:1: scenario: hello; write its fields: name, duration"},
	{"- a\n", "1:1: scenario: (a list); write its fields"},
	{"[]\n", "1:1: scenario: (an empty list)"},
	{fullScenario + "---\nname: second\n", "25:1: a second document; write one scenario a file"},
	{"name: \xff\n", "1:7: not UTF-8"},
	{"name: a\x00\n", "1:8: control character"},
	{strings.Repeat("#", maxFile+1), "1:1: longer than 1 MiB"},
	{strings.Repeat("[", 100), "1:17: nested more than 16 deep"},
	{strings.Repeat("- ", 100), "1:33: nested more than 16 deep"},
	{strings.Repeat("{a: ", 100_000), "1:65: nested more than 16 deep"},
	{strings.Repeat("- 1\n", 100_000), "75001:1: more than 150000 words"},
	{strings.Repeat("a: 1\n", 200), "101:2: more than 100 fields in a row"},
	{"a: &x [1]\nb: [*x, *x]\n", "1:4: \"&\": anchors, aliases"},
	{"a: *x\n", "1:4: \"*\": anchors, aliases"},
	{"<<: {a: 1}\n", "1:1: \"<<\": anchors, aliases"},
	{"a: !!str 3\n", "1:4: \"!!str\": anchors, aliases"},
	{"# a\r\n\r\n# b\r\nnam: x\r\n", "4:1: scenario: field nam is not known"},
	{"%YAML 2.0\n---\na: 1\n", "1:1: \"%\": anchors, aliases"},
	{"%YAML 1.2\n---\nnam: x\n", "3:1: scenario: field nam is not known"},
	{"? a\n: 1\n", "1:1: \"?\": anchors, aliases"},
	{"name: x\n\tduration: 1m\n", "2:1: "},
	{"name: [x\n", "1:7: "},
	{"name: a: b\n", "1:7: mapping value is not allowed in this context; see the example"},
	{"name: x\nname: y\n", `2:1: mapping key "name" already defined at [1:1]`},
	{"name: x\n\"name\": y\n", `2:1: mapping key "name" already defined at [1:1]`},
	// Fields.
	{"nam: x\n", "1:1: scenario: field nam is not known; did you mean name?"},
	{"rate: x\n", "1:1: scenario: field rate is not known; known are name, duration"},
	{"name: x\n1: 2\n", "2:1: scenario: field 1 is not known"},
	{"name: [x]\n", "1:7: name (a list): must be letters"},
	{"name: a b\n", `1:7: name "a b": must be letters`},
	{"name: \"a\\nb\"\n", `1:7: name "a\nb": must be letters`},
	{"name: |\n  a\n", `1:7: name "a\n": must be letters`},
	{"name:\n", "1:7: name empty: must be"},
	{"name: " + strings.Repeat("x", 65), "1:7: name xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...: must be letters"},
	{"name: heroku\n", "1:7: heroku is the name of a built-in scenario"},
	{"duration: 30\n", "1:11: duration 30: is not a duration; write a number with a unit"},
	{"duration: half an hour\n", `1:11: duration "half an hour": is not a duration`},
	{"duration: -5m\n", "1:11: duration -5m: must be from 1ms to 8784h"},
	{"duration: 0s\n", "1:11: duration 0s: must be from"},
	{"duration: 9000h\n", "1:11: duration 9000h: must be from"},
	{"duration: 9999999h\n", "1:11: duration 9999999h: must be from 1ms to 8784h"},
	{"duration: -9999999h\n", "1:11: duration -9999999h: must be from 1ms to 8784h"},
	{"duration: 1e400h\n", "1:11: duration 1e400h: is not a duration"},
	{"duration: {a: 1}\n", "1:11: duration (a mapping): is not a duration"},
	// The server.
	{"clients: []\n", "1:1: no server; write server: {"},
	{"server: fast\n", "1:9: server: fast; write its fields: limit, rate"},
	{"server:\nclients: []\n", "1:8: server: empty; write its fields"},
	{"server: {speed: 3}\n", "1:10: server: field speed is not known; known are limit, rate"},
	{"server: {burst: 3}\n", "1:9: server: no rate; write one"},
	{"server: {limit: bucket}\n", "1:17: limit bucket: is not known; known are token-bucket, leaky-bucket, fixed-window, sliding-window, sliding-slots, sliding-log, first-hit-window, calendar-window, none"},
	{"server: {limit: token-buket}\n", "1:17: limit token-buket: is not known; did you mean token-bucket?"},
	{"server: {limit: [gcra]}\n", "1:17: limit (a list): is not known"},
	{"server: {limit: sliding-log}\n", "1:9: server: no rate"},
	{"server: {limit: sliding-log, rate: 4/s, burst: 5}\n", "1:41: burst: a sliding log has none"},
	{"server: {limit: sliding-log, rate: 4/s, start: 5}\n", "1:41: start: a sliding log has none"},
	{"server: {limit: sliding-log, rate: 1000001/h}\nclients: [{work: 1}]\n", "1:36: rate 1000001/h: is more than the 1000000 that a sliding log keeps at most"},
	{"server: {limit: leaky-bucket, rate: 4/s}\n", "1:17: limit leaky-bucket: it delays what is too soon; write queue: 20"},
	{"server: {limit: concurrency, rate: 4/s}\n", "1:17: limit concurrency: write limit: none and how many are worked on at once, as in service: {time: 200ms, at_once: 10}"},
	{"server: {limit: none, rate: 4/s}\n", "1:23: rate: a server with limit none has none"},
	{"server: {limit: none, changes: []}\n", "1:23: changes: a server with limit none has none"},
	{"server: {limit: fixed-window, rate: 4/s, burst: 3}\n", "1:42: burst: a fixed window has none"},
	{"server: {limit: fixed-window, rate: 4/s, start: 3}\n", "1:42: start: a fixed window has none"},
	{"server: {rate: 4}\n", `1:16: rate "4": `},
	{"server: {rate: 4/fortnight}\n", `1:16: rate "4/fortnight": `},
	{"server: {rate: -4/s}\n", `1:16: rate "-4/s": `},
	{"server: {rate: 4/0s}\n", `1:16: rate "4/0s": `},
	{"server: {rate: [4/s]}\n", "1:16: rate (a list): is not a rate"},
	{"server: {rate: 2000000000/s}\n", "1:16: rate 2000000000/s: must be at most 1000000000"},
	{"server: {rate: 99999999999999999999/s}\n", "1:16: rate "},
	{"server: {rate: 1/400d}\n", "1:16: rate 1/400d: must be at most"},
	{"server: {rate: 0/s}\nclients: [{work: 1}]\n", "1:10: a rate of 0, and no duration; write duration: 30m"},
	{"server: {rate: 4/s, changes: [{at: 1m, rate: 0/s}]}\nclients: [{work: 1}]\n", "1:10: a rate of 0, and no duration"},
	{"duration: 300d\nserver: {rate: 0/s, burst: 1000000000}\nclients: [{}]\n", "1:11: duration 300d: is not a duration"},
	{"duration: 1000h\nserver: {rate: 0/s, burst: 1000000000}\nclients: [{}]\n", "2:28: scenario x: burst 1000000000: too many"},
	{"server: {rate: 4/s, burst: 0}\n", "1:28: burst 0: must be a whole number from 1 to 1000000000"},
	{"server: {rate: 4/s, burst: -1}\n", "1:28: burst -1: must be"},
	{"server: {rate: 4/s, burst: 1.5}\n", "1:28: burst 1.5: must be a whole number"},
	{"server: {rate: 4/s, burst: '8'}\n", "1:28: burst \"8\": must be a whole number"},
	{"server: {rate: 4/s, burst: 0x10}\n", "1:28: burst 0x10: must be a whole number"},
	{"server: {rate: 4/s, burst: 010}\n", "1:28: burst 010: must be a whole number"},
	{"server: {rate: 4/s, burst: 99999999999999999999}\n", "1:28: burst 99999999999999999999: must be"},
	{"server: {rate: 4/s, burst: 8, start: 9}\n", "1:38: start 9: must be a whole number from 0 to 8"},
	{"server: {rate: 4/s, hints: remaining}\n", "1:28: hints remaining: must be a list"},
	{"server: {rate: 4/s, hints: [remainin]}\n", "1:29: hint remainin is not known; did you mean remaining?"},
	{"server: {rate: 4/s, hints: [remaining, all]}\n", "1:40: hint all is not known; known are remaining"},
	{"server: {rate: 4/s, hints: [reset, reset, reset, reset, reset, reset, reset, reset]}\n", "1:78: hints: more than 7"},
	{"server: {limit: fixed-window, rate: 4/s, hints: [remaining, full]}\nclients: [{work: 1}]\n", "1:49: scenario x: the hints say when a bucket is full, and no limit is a token bucket; leave full out"},
	{"server: {limit: none, hints: {say: [full]}}\nclients: [{work: 1}]\n", "1:30: scenario x: the hints say when a bucket is full, and no limit is a token bucket"},
	{"server: {gap: [{least: 1s}], hints: [full]}\nclients: [{work: 1}]\n", "1:37: scenario x: the hints say when a bucket is full, and no limit is a token bucket"},
	{"server:\n\trate: 4/s\n", "2:1: begins with a tab; indent by spaces"},
	{"duration: 1m\nduration: 2m\n", `2:1: mapping key "duration" already defined at [1:1]; write it once`},
	{"server: {rate: 4/s, slots: 3}\n", "1:21: slots: it is of sliding-slots alone; leave it out"},
	{"server: {rate: 4/s, errors: 1}\n", "1:29: errors 1: must be a number of at least 0 and below 1"},
	{"server: {rate: 4/s, errors: -0.1}\n", "1:29: errors -0.1: must be"},
	{"server: {rate: 4/s, errors: .nan}\n", "1:29: errors .nan: must be"},
	{"server: {rate: 4/s, errors: 1%}\n", "1:29: errors 1%: must be"},
	{"server: {rate: 4/s, changes: {at: 1m}}\n", "1:30: changes (a mapping): must be a list, as in [{at: 10m, rate: 8/s}]"},
	{"server: {rate: 4/s, changes: [{at: 1m}]}\n", "1:31: change: needs a time and a rate"},
	{"server: {rate: 4/s, changes: [1m]}\n", "1:31: change: 1m; write its fields: at, rate, retry_after, down"},
	{"server: {rate: 4/s, changes: [{at: 2m, rate: 1/s}, {at: 1m, rate: 1/s}]}\n", "1:57: at 1m: must be later than the change before"},
	{"duration: 1m\nserver: {rate: 4/s, changes: [{at: 2m, rate: 1/s}]}\n", "2:36: at 2m: must be before the end of the run at 1m"},
	// The rest.
	{"server: {rate: 4/s}\nnetwork: 5ms\n", "2:10: network: 5ms; write its fields: latency, spread"},
	{"server: {rate: 4/s}\nnetwork: {latency: 0s}\n", "2:20: latency 0s: must be from 1µs to 1h"},
	{"server: {rate: 4/s}\nnetwork: {latency: 2h}\n", "2:20: latency 2h: must be"},
	{"server: {rate: 4/s}\nnetwork: {spread: 1.0}\n", "2:19: spread 1.0: must be"},
	{"server: {rate: 4/s}\nstop: {}\n", "2:7: stop (a mapping): needs a remaining or a sent"},
	{"server: {rate: 4/s}\nstop: {time: 3}\n", "2:8: stop: field time is not known; known are remaining, sent"},
	{"server: {rate: 4/s}\nstop: {remaining: -3}\n", "2:19: remaining -3: must be"},
	{"server: {rate: 4/s, burst: 8}\nstop: {remaining: 7}\n", "2:19: remaining 7: must be below 7, which the first answer of a full limit leaves, as else that ends the run"},
	{"server: {rate: 4/s, burst: 8, queue: 3}\nstop: {remaining: 11}\n", "2:19: remaining 11: must be below 10"},
	{"server: {limit: fixed-window, rate: 4/s, changes: [{at: 1m, rate: 8/s}]}\nstop: {remaining: 8}\n", "2:19: remaining 8: must be below 7"},
	{"server: {limit: none}\nstop: {remaining: 3}\n", "2:1: stop: remaining needs a server with a limit"},
	{"server: {rate: 4/s}\n", "1:1: no clients; write clients: [{"},
	{"server: {rate: 4/s}\nclients: []\n", "2:10: no clients; write clients: [{"},
	{"server: {rate: 4/s}\nclients: {workers: 3}\n", "2:10: clients (a mapping): must be a list, as in [{processes: 2, workers: 5}]"},
	{"server: {rate: 4/s}\nclients: [3]\n", "2:11: clients: 3; write its fields: processes"},
	{"server: {rate: 4/s}\nclients: [{}]\n", "2:11: clients whose work never ends, and no duration"},
	{"server: {rate: 4/s}\nclients: [{workers: 30, rival: true}]\n", "2:11: clients whose work never ends, and no duration"},
	{"server: {rate: 4/s}\nclients: [{rival: true, work: 5}, {policy: none, arrivals: 5/s}]\n", "2:35: clients whose work never ends, and no duration"},
	{client("threads: 3"), "3:12: clients: field threads is not known; known are processes"},
	{client("workers: 0"), "3:21: workers 0: must be a whole number from 1 to 1000000"},
	{client("workers: -1"), "3:21: workers -1: must be"},
	{client("workers: many"), "3:21: workers many: must be"},
	{client("workers: 1000, processes: 1001"), "3:11: clients: 1001000 workers up to here; at most 1000000"},
	{client("workers: 1000000, processes: 1000000"), "3:11: clients: 1000000000000 workers up to here"},
	{client("processes: 1001, arrivals: 1/s"), "3:11: clients: 1001 processes with arrivals"},
	{client("join: 1m"), "3:18: join 1m: must be before the end of the run at 1m"},
	{client("join: 5s, leave: 5s"), "3:29: leave 5s: must be after the join at 5s"},
	{client("leave: 0s"), "3:19: leave 0s: must be after the join at 0s"},
	{client("processes: 1000000, every: 1h"), "3:39: every 1h: the last of 1000000 processes"},
	{client("on: 5s"), "3:11: clients: on and off go together"},
	{client("off: 5s"), "3:11: clients: on and off go together"},
	{client("on: 0s, off: 5s"), "3:16: on 0s: must be from 1ms"},
	{client("work: 0"), "3:18: work 0: must be"},
	{client("rival: 1"), "3:19: rival 1: must be true or false"},
	{client("arrivals: 0/s"), "3:22: arrivals 0/s: must be above 0"},
	{client("arrivals: 2000000/s"), "3:22: arrivals 2000000/s: must be above 0 and at most 1000000/s"},
	{client("arrivals: 3"), `3:22: rate "3": `},
	{client("policy: best"), `3:20: policy "best" is not known; known are none`},
	{client("policy: backoff(factor=x)"), "3:20: policy backoff: factor=x: must be a number"},
	{client("policy: [none]"), "3:20: policy: needs a name, as in none"},
	{client("policy: {factor: 2}"), "3:20: policy: needs a name"},
	{client("policy: {name: best}"), `3:27: policy "best" is not known`},
	{client("policy: {name: backoff, factr: 2}"), `3:36: policy backoff: setting "factr" is not known; known are`},
	{client("policy: {name: backoff, factor: 0.5}"), "3:36: policy backoff: factor=0.5: must be a number from 1"},
	{client("policy: {name: backoff, factor: [2]}"), "3:44: factor (a list): must be a number"},
	{client("policy: {name: backoff, factor: '2,cap=3s'}"), "3:44: factor \"2,cap=3s\": must be a number"},
	{client("policy: {name: cenkalti}"), `3:27: policy "cenkalti" is not known; known are none`},
	{client("policy: omniscient(rate=4)"), "3:20: policy omniscient: it has no settings; write omniscient"},
	{client("policy: 'omniscient('"), "3:20: policy omniscient: it has no settings"},
	{client("policy: {name: retryablehttp, factor: 2}"), "3:42: policy retryablehttp: it has no settings"},
}

// client is a scenario whose group of clients, on line 3 from column 12 on, is
// as given.
func client(group string) string {
	return "duration: 1m\nserver: {rate: 4/s}\nclients: [{" + group + "}]\n"
}

func TestBadScenarioFiles(t *testing.T) {
	for _, test := range badScenarios {
		_, err := Parse("dir/x.yaml", []byte(test.text))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if want := "dir/x.yaml:" + test.want; !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("Parse(%.80q):\ngot  %q\nwant %q... in one line", test.text, got, want)
		}
	}
}

func TestNamelessScenario(t *testing.T) {
	for path, want := range map[string]string{
		"a b.yaml":       "a b.yaml:1:1: the scenario has no name; write name:",
		"dir/emr.yaml":   "dir/emr.yaml:1:1: emr is the name of a built-in scenario",
		"two\nlines.yml": `two\nlines.yml:1:1: the scenario has no name`,
	} {
		if _, err := Parse(path, []byte("server: {rate: 4/s}\nclients: [{work: 1}]\n")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %s", path, err, want)
		}
	}
}

// FuzzScenarioFile feeds anything: it is read, or refused in one line that
// says where. What is read can be run.
func FuzzScenarioFile(f *testing.F) {
	f.Add([]byte(fullScenario))
	f.Add([]byte(client("policy: omniscient, join: 5s")))
	f.Add([]byte(client("policy: {name: x-time-rate}")))
	f.Add([]byte(moreScenario))
	for _, test := range badScenarios {
		if len(test.text) < 1000 {
			f.Add([]byte(test.text))
		}
	}
	place := regexp.MustCompile(`^x\.yaml:[1-9]\d*:[1-9]\d*: .+$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("x.yaml", data)
		if err != nil {
			if !place.MatchString(err.Error()) {
				t.Errorf("Parse(%q) = %q, want one line with file, line and column", data, err)
			}
			return
		}
		if err := s.Check(); err != nil || Gist(s) == "" {
			t.Errorf("Parse(%q) = %+v, which does not check: %v", data, s, err)
		}
		workers := 0
		for _, g := range s.Clients {
			workers += g.Processes * g.Workers
		}
		if workers > 100 {
			return
		}
		p, _ := sim.ParsePolicy("fixed")
		sim.New(s, p, 1).Step(1000)
	})
}
