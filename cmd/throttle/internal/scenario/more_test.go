package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

const moreScenario = `
name: more
duration: 48h
server:
  limits:
    - {limit: sliding-slots, rate: 600/min, slots: 6}
    - {limit: calendar-window, rate: 9000/month, counts: cost}
    - {rate: 5/s, by: key}
    - {limit: first-hit-window, rate: 50/10s, by: process}
  nodes: 3
  phase: 7h
  final: 0.02
  service: {time: 200ms, spread: 0.1, tail: 0.5, at_once: 10, queue: 20}
  scale: {every: 1m, delay: 30s, target: 0.7, min: 100, max: 800}
  hints: {say: [remaining, crowded], missing: 0.1, stale: 2s}
network: {latency: 5ms, spread: 0, tail: 1, loss: 0.01}
stop: {sent: 600}
settings: {autosleeper: {initial: 1ms, up: 2}, gradual: {start: 1s}}
clients:
  - processes: 2
    arrivals: {steps: [{rate: 1/s}, {at: 8h, rate: 60/min}, {at: 20h, rate: 0/s}], repeat: 24h, batch: 5}
    timeout: 2s
    patience: 10s
    deadline: 3s
    retries: 0
    budget: {max: 5, retry: 2, call: 0.2}
    cost: {mean: 500, spread: 0.5, tail: 1, estimate: 400}
    keys: 30
    scopes: true
    clock: 5s
  - {timeout: 1m, retries: 4, cost: 3, arrivals: [{at: 0s, rate: 2/s}]}
`

func TestMoreOfScenarioFile(t *testing.T) {
	s, err := Parse("x.yaml", []byte(moreScenario))
	if err != nil {
		t.Fatal(err)
	}
	const second = time.Second
	want := sim.Scenario{
		Name: "more", Duration: 48 * time.Hour,
		Server: sim.Server{
			Limit: limit.Limit{Kind: limit.SlidingSlots, Count: 600, Period: 60 * second, Slots: 6},
			More: []sim.Quota{
				{Limit: limit.Limit{Kind: limit.CalendarWindow, Count: 9000, Period: s.Server.More[0].Limit.Period}, Costs: true},
				{Limit: limit.Limit{Count: 5, Period: second, Burst: 5}, By: sim.ByKey},
				{Limit: limit.Limit{Kind: limit.FirstHitWindow, Count: 50, Period: 10 * second}, By: sim.ByProcess},
			},
			Nodes: 3, Phase: 7 * time.Hour, Final: 0.02,
			Hints: sim.Hints{Remaining: true, Crowded: true}, Blur: sim.Blur{Missing: 0.1, Stale: 2 * second},
			Service: sim.Service{Time: second / 5, Spread: 0.1, Tail: 0.5, AtOnce: 10, Queue: 20},
			Scale:   sim.AutoScale{Every: time.Minute, Delay: 30 * second, Target: 0.7, Min: 100, Max: 800},
		},
		Network:  sim.Network{Latency: 5 * time.Millisecond, Tail: 1, Loss: 0.01},
		Stop:     sim.Stop{Sent: 600},
		Settings: map[string]string{"autosleeper": "initial=1ms,up=2", "gradual": "start=1s"},
		Clients: []sim.Group{
			{
				Processes: 2, Workers: 1,
				Steps:   []sim.Arrive{{Rate: 1}, {At: 8 * time.Hour, Rate: 1}, {At: 20 * time.Hour}},
				Repeat:  24 * time.Hour,
				Batch:   5,
				Timeout: 2 * second, Patience: 10 * second, Deadline: 3 * second,
				Retries: -1, Budget: pace.Budget{Max: 5, Retry: 2, Call: 0.2},
				Cost: sim.Cost{Mean: 500, Spread: 0.5, Tail: 1, Estimate: 400},
				Keys: 30, Scopes: true, Clock: 5 * second,
			},
			{Processes: 1, Workers: 1, Timeout: time.Minute, Retries: 4, Cost: sim.Cost{Mean: 3}, Steps: []sim.Arrive{{Rate: 2}}},
		},
	}
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("Parse =\n%s\nwant\n%s", got, want)
	}
	if got := s.Server.More[0].Limit.String(); got != "9000/month calendar-window" {
		t.Errorf("the calendar's limit is %s, want 9000/month", got)
	}
}

func TestLeakyBucketInFile(t *testing.T) {
	for text, want := range map[string]sim.Server{
		"{limit: leaky-bucket, rate: 10/s, queue: 20}":           {Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 1}, Queue: 20},
		"{limit: leaky-bucket, rate: 10/s, queue: 20, burst: 9}": {Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 9}, Queue: 20},
		"{rate: 10/s, queue: 2}":                                 {Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 1}, Queue: 2},
		"{gap: [{least: 5ms}, {from: 9, least: 1ms}]}":           {Gap: []sim.Gap{{From: 1, Least: 5 * time.Millisecond}, {From: 9, Least: time.Millisecond}}},
	} {
		s, err := Parse("x.yaml", []byte("server: "+text+"\nclients: [{work: 10}]\n"))
		if got, want := fmt.Sprintf("%+v", s.Server), fmt.Sprintf("%+v", want); err != nil || got != want {
			t.Errorf("server %s = %s, %v; want %s", text, got, err, want)
		}
	}
}

// badMore are refused with this line and column, and words.
var badMore = []struct{ text, want string }{
	{"server: {limits: []}\n", "1:18: limits (an empty list): must have at least one, as in"},
	{"server: {limits: [{rate: 4/s}], rate: 4/s}\n", "1:33: rate: with limits, it belongs to each of them"},
	{"server: {limits: [{rate: 4/s}, {rate: 5/s, queue: 3}]}\n", "1:44: queue: only the first of several limits delays"},
	{"server: {limits: [{rate: 4/s}, {burst: 3}]}\n", "1:32: server: no rate"},
	{"server: {rate: 4/s, by: user}\n", "1:25: by user: must be one of all, process, key"},
	{"server: {rate: 4/s, counts: bytes}\n", "1:29: counts bytes: must be one of requests, cost"},
	{"server: {rate: 4/s, slots: 3}\n", "1:21: slots: it is of sliding-slots alone"},
	{"server: {limit: sliding-window, rate: 4/s, queue: 3}\n", "1:44: queue: a sliding window has none"},
	{"server: {limit: calendar-window, rate: 4/10s}\n", "1:40: rate 4/10s: is not a rate of a calendar window"},
	{"server: {limit: calendar-window, rate: 60/min, changes: [{at: 2m, rate: 100/10s}]}\n", "1:73: rate 100/10s: is not a rate of a calendar window"},
	{"server: {limits: [{limit: calendar-window, rate: 60/min}], changes: [{at: 2m, rate: 5/2min}]}\n", "1:85: rate 5/2min: is not a rate of a calendar window"},
	{"server: {limit: calendar-window, rate: 60/min, scale: {every: 10s, target: 0.7, min: 1, max: 100}}\n", "1:48: scale: its rates are those of a second"},
	{"server: {gap: [{least: 5ms}], rate: 4/s}\n", "1:31: rate: a server with a gap has no other limit"},
	{"server: {gap: []}\n", "1:15: gap (an empty list): must have at least one"},
	{"server: {gap: [{from: 3}]}\n", "1:16: gap: needs a least distance"},
	{"server: {gap: [{least: 5ms}, {from: 1, least: 5ms}]}\n", "1:30: gap: from must be later"},
	{"server: {rate: 4/s, scale: {every: 1m}}\n", "1:28: scale: no target"},
	{"server: {rate: 4/s, scale: {every: 1m, target: 0.7, min: 5, max: 4}}\n", "1:66: max 4: must not be below min"},
	{"server: {rate: 4/s, service: {at_once: 4}}\n", "1:30: service: no time"},
	{"server: {rate: 4/s, service: {time: 1s, pause: {every: 1s, length: 2s}}}\n", "1:48: pause: its length must be shorter than every"},
	{"server: {rate: 4/s, service: {time: 1s, slow: {share: 0.5, times: 2}}}\n", "1:47: slow: needs times, and a service of at_once 2 or more"},
	{"server: {rate: 4/s, service: {time: 1s, speeds: [{at: 1s, times: 2}, {at: 1s, times: 3}]}}\n", "1:70: speeds: needs times, and an at after the one before"},
	{"server: {rate: 4/s, service: {time: 1s, queue: 4}}\n", "1:48: queue 4: needs an at_once"},
	{"server: {rate: 4/s, service: {time: 1s, batch: 4}}\n", "1:48: batch 4: needs an at_once"},
	{"server: {rate: 4/s, nodes: 0}\n", "1:28: nodes 0: must be a whole number from 1 to 1000"},
	{"server: {rate: 4/s, errors: 0.6, down: 0.4}\nclients: [{work: 1}]\n", "1:40: down 0.4: must be below 1 together with errors"},
	{"server: {rate: 4/s, errors: 0.6, changes: [{at: 1m, rate: 4/s, down: 0.4}]}\nclients: [{work: 1}]\n", "1:70: down 0.4: must be below 1 together with errors"},
	{"server: {rate: 4/s, errors: 0.6, final: 0.6}\nclients: [{work: 1}]\n", "1:41: final 0.6: must be below 1 together with errors"},
	{"server: {rate: 4/s, hints: {missing: 0.1}}\n", "1:28: hints: nothing to say"},
	{"server: {rate: 4/s, hints: {say: [remaining], missing: 2}}\n", "1:56: missing 2: must be a number from 0 to 1"},
	{"server: {rate: 4/s, changes: [{at: 1m, rate: 0/s, retry_after: 1ms}]}\n", "1:64: retry_after 1ms: must be from 1s"},
	{"server: {rate: 4/s}\nnetwork: {tail: 4}\n", "2:17: tail 4: must be a number from 0 to 3"},
	{"server: {rate: 4/s}\nnetwork: {loss: 0.1}\nclients: [{work: 1}]\n", "3:11: clients: calls are lost, and would wait forever; write timeout: 2s"},
	{"server: {rate: 4/s}\nclients: [{work: 1}]\nsettings: {best: {a: 1}}\n", `3:12: policy "best" is not known`},
	{"server: {rate: 4/s}\nclients: [{work: 1}]\nsettings: {fixed: {speed: 1}}\n", `3:20: policy fixed: setting "speed" is not known`},
	{"server: {rate: 4/s}\nclients: [{work: 1}]\nsettings: {fixed: {rate: 1}, backoff: {factor: 0}}\n", `3:40: policy backoff: factor=0: must be a number from 1`},
	{"server: {rate: 4/s}\nclients: [{work: 1}]\nsettings: {omniscient: {rate: 4}}\n", `3:25: policy omniscient: it has no settings`},
	{"server: {rate: 4/s}\nclients: [{work: 1}]\nsettings: null\n", "3:11: settings: empty; write {NAME: VALUE}, or leave it out"},
	{"server: {rate: 4/s}\nclients: [{work: 1}]\nsettings: {adaptive: 3}\n", "3:22: adaptive: 3; write {NAME: VALUE}"},
	{"server: {limit: sliding-log, rate: 4/s, changes: [{at: 1m, rate: 1000001/s}]}\n", "1:66: rate 1000001/s: is more than the 1000000"},
	{"server: {limits: [{rate: 4/s}, {limit: none}]}\n", "1:40: limit none: limits nothing; leave it out"},
	{"server: {limits: [{rate: 4/s}, {rate: 0/s}]}\n", "1:39: rate 0/s: allows nothing"},
	{"duration: 1h\nserver: {rate: 0/s, queue: 5}\nclients: [{}]\n", "2:28: queue 5: waits for tokens"},
	{"duration: 1h\nserver: {limits: [{rate: 0/s, queue: 5}]}\nclients: [{}]\n", "2:38: queue 5: waits for tokens"},
	{"server: {limit: sliding-log, rate: 4/s, scale: {every: 1m, target: 0.7, min: 1, max: 1000001}}\nclients: [{work: 1}]\n", "1:86: max 1000001: is more than the 1000000"},
	{"duration: 1h\nserver: {rate: 0/s, burst: 1000000000}\nclients: [{}]\n", "2:28: scenario x: burst 1000000000: too many"},
	{"server: {rate: 4/s, nodes: 1000, by: key}\nclients: [{work: 1, keys: 10000}]\n", "1:38: scenario x: limits by process and key"},
	{"server: {nodes: 1000, limits: [{rate: 4/s, by: key}]}\nclients: [{work: 1, keys: 10000}]\n", "1:31: scenario x: limits by process and key"},
	{client("workers: 101, keys: 10000, scopes: true"), "3:47: scopes true: makes 10000 for each of 101 workers; at most 1000000"},
	{client("arrivals: []"), "3:22: arrivals (an empty list): must have at least one step"},
	{client("arrivals: {}"), "3:22: arrivals: needs one of rate, steps and trace"},
	{client("arrivals: {rate: 1/s, trace: x}"), "3:22: arrivals: needs one of"},
	{client("arrivals: [{at: 5s, rate: 1/s}]"), "3:28: at 5s: the first step must be at 0s"},
	{client("arrivals: [{rate: 1/s}, {at: 0s, rate: 1/s}]"), "3:41: at 0s: must be later than the step before it"},
	{client("arrivals: [{rate: 1/s}, {rate: 1/s}]"), "3:36: arrivals: a step needs a time and a rate"},
	{client("arrivals: {rate: 1/s, repeat: 24h}"), "3:42: repeat 24h: needs steps to repeat"},
	{client("arrivals: {steps: [{rate: 1/s}, {at: 30s, rate: 3/s}], repeat: 30s}"), "3:75: repeat 30s: must be longer than until the last step at 30s"},
	{client("arrivals: {trace: no-such-file}"), "3:30: trace: dir/no-such-file: no such file; it is looked for beside the scenario"},
	{client("arrivals: {trace: /}"), "3:30: trace: /: not a file; name one of times, one a line"},
	{client("arrivals: {rate: 1/s, batch: 0}"), "3:41: batch 0: must be a whole number from 1"},
	{"server: {rate: 1000/min, burst: 60, counts: cost}\nclients: [{work: 1, cost: 61}]\n", "2:27: cost 61: must be at most 60, what the limit grants at once"},
	{"server: {limits: [{rate: 10/s}, {limit: fixed-window, rate: 60/min, counts: cost}], nodes: 2}\nclients: [{work: 1, cost: {mean: 31}}]\n", "2:34: mean 31: must be at most 30"},
	{client("timeout: 0s"), "3:21: timeout 0s: must be from 1ms"},
	{client("cost: {tail: 1}"), "3:18: cost: no mean"},
	{client("cost: cheap"), "3:18: cost: cheap; write its fields: mean"},
	{client("retries: -1"), "3:21: retries -1: must be a whole number from 0"},
	{client("keys: 100001"), "3:18: keys 100001: must be"},
}

func TestBadMoreInScenarioFiles(t *testing.T) {
	for _, test := range badMore {
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

// A run may end when few remain of a bucket that is not refilled, or of a window that is larger later.
func TestStopWithFewRemaining(t *testing.T) {
	for _, server := range []string{
		"{rate: 0/s, burst: 4500}", "{rate: 4/s, burst: 12}", "{rate: 4/s, burst: 8, queue: 4}",
		"{limit: fixed-window, rate: 4/s, changes: [{at: 1s, rate: 12/s}]}",
	} {
		s, err := Parse("x.yaml", []byte("duration: 1m\nserver: "+server+"\nstop: {remaining: 10}\nclients: [{}]\n"))
		if err != nil || s.Stop.Remaining.V != 10 {
			t.Errorf("server %s: ends with %+v, %v; want 10 that remain", server, s.Stop, err)
		}
	}
}

// A trace is read from beside the scenario; what is wrong with it is said with
// its line.
func TestTraceOfCalls(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct{ trace, want string }{
		{"# two\n0.5\n\n1.5s\n2\n", ""},
		{"\ufeff0.5\r\n1.5\r\n2\r\n", ""},
		{"60\n61\n", "the trace begins at 1m; it must begin before the end of the run at 1m"},
		{"1\n0.5\n", "line 2: earlier than the line before"},
		{"1\nsoon\n", "line 2: soon is not a time from the start"},
		{"-1\n", "line 1: -1 is not from 0s to 8784h"},
		{"1e300\n", "line 1: 1e300 is not from 0s to 8784h"},
		{"31622401\n", "line 1: 31622401 is not from 0s to 8784h"},
		{"9000h\n", "line 1: 9000h is not from 0s to 8784h"},
		{"inf\n", "line 1: inf is not a time"},
		{"nan\n", "line 1: nan is not a time"},
		{"\n# none\n", "has no times"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "calls.txt"), []byte(test.trace), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Parse(filepath.Join(dir, "x.yaml"), []byte(client("arrivals: {trace: calls.txt}")))
		switch {
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("trace %q: %v, want %s", test.trace, err, test.want)
		case test.want == "" && (err != nil || fmt.Sprint(s.Clients[0].Trace) != "[500ms 1.5s 2s]"):
			t.Errorf("trace %q = %v, %v; want 0.5 s, 1.5 s and 2 s", test.trace, s.Clients, err)
		}
	}
}

// A service of batches is written as it is read.
func TestBatchesOfScenarioFile(t *testing.T) {
	s, err := Parse("x.yaml", []byte("server: {limit: none, service: {time: 2ms, at_once: 1, each: 50us, batch: 16}}\nduration: 1m\nclients: [{workers: 64}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Server.Service; w.Each != 50*time.Microsecond || w.Batch != 16 {
		t.Errorf("each %v, batch %d; want 50µs, 16", w.Each, w.Batch)
	}
	var b strings.Builder
	writeService(&b, s.Server.Service)
	if want := "  service: {time: 2ms, at_once: 1, each: 50µs, batch: 16}\n"; b.String() != want {
		t.Errorf("written as %q, want %q", b.String(), want)
	}
	if gist := Gist(s); !strings.Contains(gist, "and 50µs for each of a batch of up to 16") {
		t.Errorf("gist %q", gist)
	}
}

// A scenario without a duration needs work that ends: that of the measured clients
// or, where none is measured, of all, if there is no stop.
func TestScenariosWithoutDuration(t *testing.T) {
	for _, text := range []string{
		"clients: [{rival: true, work: 5}]",
		"clients: [{policy: none, work: 5}, {rival: true, work: 5}]",
		"clients: [{work: 5}, {rival: true}]",
		"stop: {sent: 100}\nclients: [{rival: true}]",
	} {
		if _, err := Parse("x.yaml", []byte("server: {rate: 4/s}\n"+text+"\n")); err != nil {
			t.Errorf("Parse(%q) = %v, want no error", text, err)
		}
	}
}

// TestDownInWords: what is down at the start is said of a service without a limit too, and
// until when, as a change that states no share ends it.
func TestDownInWords(t *testing.T) {
	v := sim.Server{Down: 0.1}
	if got := Gist(sim.Scenario{Server: v}); !strings.HasPrefix(got, "no limit with 10 % down") {
		t.Errorf("without a limit: %s", got)
	}
	v.Limit = limit.Limit{Count: 4, Period: time.Second}
	v.Changes = []sim.Change{{At: time.Minute, Count: 8, Period: time.Second}}
	s := sim.Scenario{Server: v}
	if got := Gist(s); !strings.Contains(got, "with 10 % down, 8/s at 1m with all up") {
		t.Errorf("with a change: %s", got)
	}
	words := strings.Join(Describe(s)[0].Text, " ")
	for _, want := range []string{"From 1 min on: 8 a second, and all of it works again.", "is down, and answers 503, until 1 min."} {
		if !strings.Contains(words, want) {
			t.Errorf("%s; want %s", words, want)
		}
	}
}
