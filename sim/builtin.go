package sim

import (
	"slices"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// Builtin returns every scenario that has a name, newly made.
func Builtin() []Scenario {
	return slices.Concat([]Scenario{
		heroku(), herokuClear(), emr(), emrWorkers(), emrShared(), dynamodb(), sleeper(), autoscale(),
	}, many(), windows(), troubles(), mixed(), databases())
}

// Find returns the built-in scenario of that name.
func Find(name string) (Scenario, bool) {
	for _, s := range Builtin() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

func bucketOf(count int64, period time.Duration, burst int64) limit.Limit {
	return limit.Limit{Count: count, Period: period, Burst: burst}
}

const spread = 0.2

// heroku is the benchmark of zombocom/rate_throttle_client: ten clients on an
// empty bucket that holds an hour's worth.
func heroku() Scenario {
	return Scenario{
		Name: "heroku", Duration: 30 * time.Minute,
		Server: Server{
			Limit: bucketOf(75, time.Minute, 4500),
			Start: pace.Some[int64](0),
			Hints: Hints{Remaining: true},
		},
		Network: Network{Latency: 165 * time.Millisecond, Spread: spread},
		Clients: []Group{{Processes: 2, Workers: 5}},
	}
}

// herokuClear is its second part: how soon 4500 tokens are used up.
func herokuClear() Scenario {
	s := heroku()
	s.Name, s.Duration = "heroku-clear", 3*time.Hour
	s.Server.Limit = bucketOf(0, time.Minute, 4500)
	s.Server.Start = pace.Opt[int64]{}
	s.Stop.Remaining = pace.Some[int64](10)
	s.Settings = map[string]string{
		"gradual": "start=1s", "proportional": "start=1s", "proportional-remaining": "start=1s",
	}
	return s
}

// emr scans 1000 clusters through an API of 4 requests a second.
func emr() Scenario {
	return Scenario{
		Name: "emr",
		Server: Server{
			Limit: bucketOf(4, time.Second, 8),
			Hints: Hints{Remaining: true},
		},
		Network: Network{Latency: 100 * time.Millisecond, Spread: spread},
		Clients: []Group{{Processes: 1, Workers: 1, Work: 1000}},
	}
}

func emrWorkers() Scenario {
	s := emr()
	s.Name = "emr-workers"
	s.Clients = []Group{{Processes: 1, Workers: 10, Work: 1000}}
	return s
}

func emrShared() Scenario {
	s := emr()
	s.Name, s.Duration = "emr-shared", 30*time.Minute
	s.Clients = []Group{
		{Processes: 1, Workers: 4},
		{Processes: 1, Workers: 4, Join: 2 * time.Minute},
		{Processes: 1, Workers: 4, Join: 4 * time.Minute},
	}
	return s
}

// dynamodb is a table whose capacity is changed under its writers.
func dynamodb() Scenario {
	return Scenario{
		Name: "dynamodb", Duration: 8 * time.Minute,
		Server: Server{
			Limit: bucketOf(100, time.Second, 300),
			Hints: Hints{Remaining: true},
			Changes: []Change{
				{At: 2 * time.Minute, Count: 400, Period: time.Second},
				{At: 4 * time.Minute, Count: 50, Period: time.Second},
				{At: 6 * time.Minute, Count: 200, Period: time.Second},
			},
		},
		Network: Network{Latency: 10 * time.Millisecond, Spread: spread},
		Clients: []Group{{Processes: 20, Workers: 4}},
	}
}

// sleeper is the server behind the chart of AutoSleeper's documentation. The
// settings of that chart are not AutoSleeper's defaults: docs/policies.md has
// them.
func sleeper() Scenario {
	return Scenario{
		Name:    "sleeper",
		Server:  Server{Gap: []Gap{{1, 290 * time.Millisecond}, {200, 60 * time.Millisecond}}},
		Network: Network{Latency: time.Millisecond, Spread: spread},
		Stop:    Stop{Sent: 600},
		Clients: []Group{{Processes: 1, Workers: 1}},
	}
}

// autoscale is a table whose capacity follows the load, as DynamoDB's does,
// under a job whose workers come and go.
func autoscale() Scenario {
	return Scenario{
		Name: "autoscale", Duration: 20 * time.Minute,
		Server: Server{
			Limit: bucketOf(100, time.Second, 300),
			Hints: Hints{Remaining: true},
			Scale: AutoScale{Every: time.Minute, Delay: 30 * time.Second, Target: 0.7, Min: 100, Max: 800},
		},
		Network: Network{Latency: 10 * time.Millisecond, Spread: spread},
		Clients: []Group{{
			Processes: 20, Workers: 4, Every: 10 * time.Second, Leave: 1000 * time.Second,
		}},
	}
}
