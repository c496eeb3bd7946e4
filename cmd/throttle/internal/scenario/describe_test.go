package scenario

import (
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/sim"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		scenario sim.Scenario
		want     []string
	}{
		{clitest.Builtin(t, "heroku"), []string{
			"A token bucket: 75 a minute come in, and at most 4,500 are kept. At the start 0 are there. Its answers say how many requests remain.",
			"A call takes 165 ms ± 20 %, half there and half back.",
			"2 processes of 5 workers each. A worker calls again as soon as it has its answer.",
			"Ends after 30 min.",
		}},
		{clitest.Builtin(t, "sleeper"), []string{
			"Serves a request if the one before came more than 290 ms ago. From request 200 on, 60 ms are enough. Its answers say nothing about the limit.",
			"A call takes 1 ms ± 20 %, half there and half back.",
			"1 process of 1 worker. A worker calls again as soon as it has its answer.",
			"Ends with request 600.",
		}},
		{clitest.Builtin(t, "heroku-clear"), []string{
			"A token bucket of 4,500 that is never refilled. Its answers say how many requests remain.",
			"A call takes 165 ms ± 20 %, half there and half back.",
			"2 processes of 5 workers each. A worker calls again as soon as it has its answer.",
			"Ends after 3 h, or when no more than 10 requests remain, whichever comes first. Here gradual is gradual(start=1s)." +
				" Here proportional is proportional(start=1s). Here proportional-remaining is proportional-remaining(start=1s).",
		}},
		{clitest.Builtin(t, "emr"), []string{
			"A token bucket: 4 a second come in, and at most 8 are kept. Its answers say how many requests remain.",
			"A call takes 100 ms ± 20 %, half there and half back.",
			"1 process of 1 worker, with 1,000 calls to make in all. A worker calls again as soon as it has its answer.",
			"Ends when the work is done.",
		}},
	} {
		for i, f := range Describe(c.scenario) {
			if got := strings.Join(f.Text, " "); got != c.want[i] {
				t.Errorf("%s: %s:\ngot  %s\nwant %s", c.scenario.Name, f.Name, got, c.want[i])
			}
		}
	}
}

// The unit of a calendar window is said as files write it: a month is no 31 days.
// Of two reasons to stop both are said.
func TestDescribeCalendarAndStop(t *testing.T) {
	for unit, said := range map[string]string{"min": "minute", "hour": "hour", "day": "day", "week": "week", "month": "month", "3month": "3 months"} {
		s, err := Parse("x.yaml", []byte("server: {limit: calendar-window, rate: 7/"+unit+", changes: [{at: 10s, rate: 9/"+unit+"}]}\n"+
			"duration: 1m\nstop: {remaining: 2, sent: 40}\nclients: [{workers: 4}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		unit = strings.Replace(unit, "hour", "h", 1)
		if gist := Gist(s); !strings.Contains(gist, "of 7/"+unit+", 9/"+unit+" at 10s") || !strings.Contains(gist, "until 2 remain or 40 are answered") {
			t.Errorf("gist %q", gist)
		}
		if text := strings.Join(serverInWords(s.Server), " "); !strings.Contains(text, "Serves 7 in each "+said+" of the calendar.") || !strings.Contains(text, ": 9 in each "+said+".") {
			t.Errorf("in words %q", text)
		}
	}
}

// A run without a measured group ends with the work of all, and else at its time alone.
func TestDescribeRivalsAlone(t *testing.T) {
	for groups, want := range map[string]string{
		"{rival: true}":                            "Ends after 1 min.",
		"{policy: none, work: 5}":                  "Ends after 1 min, or when the work is done, whichever comes first.",
		"{policy: none, work: 5}, {rival: true}":   "Ends after 1 min.",
		"{work: 5}, {rival: true}":                 "Ends after 1 min, or when the work is done, whichever comes first.",
		"{work: 5}, {work: 5}, {policy: none}, {}": "Ends after 1 min.",
	} {
		s, err := Parse("x.yaml", []byte("duration: 1m\nserver: {rate: 4/s}\nclients: ["+groups+"]\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := runInWords(s); got != want {
			t.Errorf("clients %s: %s want %s", groups, got, want)
		}
	}
}
