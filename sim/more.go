package sim

import (
	"time"

	"github.com/throttle-go/throttle/limit"
)

// plain is a server 100 ms away that tells what remains.
func plain(name string, length time.Duration, l limit.Limit, clients ...Group) Scenario {
	return Scenario{
		Name: name, Duration: length,
		Server:  Server{Limit: l, Hints: Hints{Remaining: true}},
		Network: Network{Latency: 100 * time.Millisecond, Spread: spread},
		Clients: clients,
	}
}

// many are scenarios of many clients, and of few very fast or slow ones.
func many() []Scenario {
	thousand := plain("thousand", 10*time.Minute, bucketOf(1000, time.Second, 1000), Group{Processes: 1000, Workers: 1})
	thousand.Network.Latency = 165 * time.Millisecond
	ten := plain("ten-thousand", 5*time.Minute, bucketOf(2000, time.Second, 2000), Group{Processes: 10_000, Workers: 1})
	ten.Network.Latency = 165 * time.Millisecond
	fast := plain("fast", time.Minute, bucketOf(10_000, time.Second, 10_000), Group{Processes: 4, Workers: 500})
	fast.Network.Latency = 20 * time.Millisecond
	endless := plain("endless", time.Minute, limit.Limit{}, Group{Processes: 1, Workers: 100})
	endless.Network.Latency = 50 * time.Millisecond
	return []Scenario{
		thousand, ten,
		plain("slow", 6*time.Hour, bucketOf(1, time.Minute, 1), Group{Processes: 1, Workers: 2}),
		fast,
		plain("tight", 15*time.Minute, bucketOf(20, time.Second, 1), Group{Processes: 20, Workers: 2}),
		endless,
	}
}

// windows are servers that count in windows.
func windows() []Scenario {
	window := func(count int64, period time.Duration) limit.Limit {
		return limit.Limit{Kind: limit.FixedWindow, Count: count, Period: period}
	}
	short := plain("fixed-window", 15*time.Minute, window(100, 10*time.Second), Group{Processes: 4, Workers: 4})
	hourly := plain("hourly", 3*time.Hour, window(5000, time.Hour), Group{Processes: 4, Workers: 4})
	short.Server.Hints.Reset, hourly.Server.Hints.Reset = true, true
	sliding := plain("sliding", 15*time.Minute, window(100, 10*time.Second), Group{Processes: 4, Workers: 4})
	sliding.Server.Limit.Kind = limit.SlidingLog
	return []Scenario{short, hourly, sliding}
}

// troubles are a bucket of 20 a second in which something goes wrong.
func troubles() []Scenario {
	twenty := bucketOf(20, time.Second, 40)
	four := Group{Processes: 4, Workers: 10}
	of := func(name string, clients ...Group) Scenario {
		return plain(name, 15*time.Minute, twenty, clients...)
	}
	change := func(name string, to int64) Scenario {
		s := of(name, four)
		s.Server.Changes = []Change{{At: 5 * time.Minute, Count: to, Period: time.Second}}
		return s
	}
	far := of("far", Group{Processes: 4, Workers: 20})
	far.Network.Latency = 1650 * time.Millisecond
	errors := of("errors", four)
	errors.Server.Errors = 0.01
	greedy := mustPolicy("backoff-jitter")
	onOff := plain("on-off", 20*time.Minute, bucketOf(5, time.Second, 300),
		Group{Processes: 3, Workers: 5, On: 40 * time.Second, Off: 80 * time.Second})
	return []Scenario{
		of("leavers", Group{Processes: 2, Workers: 10}, Group{Processes: 8, Workers: 4, Leave: 5 * time.Minute}),
		change("drop", 2), change("rise", 200),
		far, errors,
		of("rival", Group{Processes: 3, Workers: 4}, Group{Processes: 1, Workers: 4, Policy: &greedy, Rival: true}),
		onOff,
	}
}

// mixed are informed and blind clients on one quota.
func mixed() []Scenario {
	informed, blind := mustPolicy("adaptive-informed"), mustPolicy("adaptive")
	pair := func(name string, s Scenario, each, workers int) Scenario {
		s.Name, s.Duration = name, 30*time.Minute
		s.Clients = []Group{
			{Processes: each, Workers: workers, Policy: &informed},
			{Processes: each, Workers: workers, Policy: &blind},
		}
		return s
	}
	return []Scenario{
		pair("mixed-heroku", heroku(), 1, 5),
		pair("mixed-emr", emr(), 2, 4),
		pair("mixed-20", plain("", 0, bucketOf(20, time.Second, 40)), 2, 5),
	}
}

func mustPolicy(text string) Policy {
	p, err := ParsePolicy(text)
	if err != nil {
		panic(err)
	}
	return p
}
