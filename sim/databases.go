package sim

import (
	"time"

	"github.com/throttle-go/throttle/limit"
)

// databases are servers that a caller can drown: they do not refuse, but become
// slower with what is in flight. A process has 512 workers where a policy bounds
// what is in flight, all of which want to write all the time.
func databases() []Scenario {
	return []Scenario{cassandra(), slowNode(), gcPause(), metastable(), throwOnOverload()}
}

// database has a node of 32 workers, each of which takes 0.5 ms for a write. It
// does 64,000 writes a second.
func database(name string, length time.Duration, clients ...Group) Scenario {
	if len(clients) == 0 {
		clients = []Group{{Processes: 1, Workers: 512, Timeout: 2 * time.Second}}
	}
	return Scenario{
		Name: name, Duration: length,
		Server:  Server{Service: Service{Time: 500 * time.Microsecond, Spread: 0.2, Tail: 0.5, AtOnce: 32, Queue: -1}, Hints: Hints{Crowded: true}},
		Network: Network{Latency: 200 * time.Microsecond, Spread: spread},
		Clients: clients,
	}
}

// cassandra is a node that is rate limited on its own side to 500 writes a
// second, without refusals, as with native_transport_rate_limiting_enabled. Its
// caller gives up after 600 ms.
func cassandra() Scenario {
	s := database("cassandra", 30*time.Second, Group{Processes: 1, Workers: 512, Timeout: 600 * time.Millisecond})
	s.Server.Limit, s.Server.Queue = bucketOf(500, time.Second, 1), 1<<30
	s.Server.Service = Service{}
	s.Network.Latency = time.Millisecond
	return s
}

// slowNode is three nodes, one of which takes ten times as long.
func slowNode() Scenario {
	s := database("cassandra-slow-node", 12*time.Second)
	s.Server.Service.Time, s.Server.Service.AtOnce = 5*time.Millisecond, 48
	s.Server.Service.Slow = Slow{Share: 1.0 / 3, Times: 10}
	return s
}

// gcPause is a node that stops for 200 ms every 3 s.
func gcPause() Scenario {
	s := database("gc-pause", 12*time.Second)
	s.Server.Service.Time = 5 * time.Millisecond
	s.Server.Service.Pause = Pause{Every: 3 * time.Second, Length: 200 * time.Millisecond}
	return s
}

// metastable is 400 calls a second to a server that does 500; from 10 s to 20 s
// it does 100. The callers give a try up after 600
// ms, and the server works on it all the same: the trigger is over, and the
// overload stays (Huang and others, Metastable Failures in the Wild, OSDI 2022).
func metastable() Scenario {
	s := database("metastable", time.Minute, Group{
		Processes: 1, Workers: 1000, Arrivals: 400, Timeout: 600 * time.Millisecond,
	})
	s.Server.Service = Service{
		Time: 10 * time.Millisecond, Spread: 0.2, AtOnce: 5, Queue: -1,
		Speeds: []Speed{{10 * time.Second, 5}, {20 * time.Second, 1}},
	}
	s.Network.Latency = time.Millisecond
	return s
}

// throwOnOverload is a node that refuses beyond 500 writes a second, as with
// native_transport_throw_on_overload.
func throwOnOverload() Scenario {
	s := cassandra()
	s.Name = "throw-on-overload"
	s.Server.Queue = 0
	s.Server.Limit = limit.Limit{Count: 500, Period: time.Second, Burst: 50}
	return s
}
