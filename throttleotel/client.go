package throttleotel

import (
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// Calls observes the counts of c for the calls of one or more Throttles: tries
// by verdict, waits, calls given up. Set Throttle.OnEvent to c.OnEvent.
func (m *Metrics) Calls(name string, c *throttle.Counter) error {
	return register(m, "Counter of calls", name, c, ofCalls, (*throttle.Counter).Stats)
}

var ofCalls = []reading[throttle.Stats]{
	{
		counter, "throttle.client.tries", "{try}", "Tries ended, by how the server answered.",
		func(s throttle.Stats, o observer) {
			o.count(s.Served, keyVerdict.String(pace.Served.String()))
			o.count(s.Throttled, keyVerdict.String(pace.Throttled.String()))
			o.count(s.Failed, keyVerdict.String(pace.Failed.String()))
			o.count(s.Ignored, keyVerdict.String(pace.Ignored.String()))
		},
	},
	{
		counter, "throttle.client.starts", "{try}", "Tries started.",
		func(s throttle.Stats, o observer) { o.count(s.Starts) },
	},
	{
		counter, "throttle.client.waits", "{wait}", "Waits for a turn or a retry, those that ended without a start included.",
		func(s throttle.Stats, o observer) { o.count(s.Waits) },
	},
	{
		seconds, "throttle.client.wait.time", "s", "Time that tries waited before they started, added up.",
		func(s throttle.Stats, o observer) { o.time(s.Waited) },
	},
	{
		counter, "throttle.client.give_ups", "{call}", "Calls that returned a throttle.Error.",
		func(s throttle.Stats, o observer) { o.count(s.GaveUp) },
	},
}

// Throttle observes the calls of t that wait and that are in flight, the rate at
// which they start, how long a new call would wait, and its Fleet. A Throttle that
// is restored must be so before, see Throttle.Restore.
func (m *Metrics) Throttle(name string, t *throttle.Throttle) error {
	return register(m, "Throttle", name, t, ofThrottle, throttleNow)
}

// throttleStats are what is read of a Throttle.
type throttleStats struct {
	waiting, inFlight int
	rate              float64       // zero if unknown
	forecast          time.Duration // pace.Never if unknown
	fleet             throttle.FleetStats
	inFleet           bool
}

func throttleNow(t *throttle.Throttle) throttleStats {
	now := t.Status() // whose forecast does not count a wait for a call in flight to end
	s := throttleStats{waiting: now.Waiting, inFlight: now.InFlight, forecast: now.Next}
	s.rate = rate(t, s.waiting)
	s.fleet, s.inFleet = t.FleetStats(), t.Fleet.Store != nil
	return s
}

// rate returns how many calls a second start behind those that wait, zero if
// unknown or unbounded: by the distance of two forecasts, both far enough to lie
// beyond a burst. Throttle.Learnt does not do, as it goes on to rise while there
// are no calls.
func rate(t *throttle.Throttle, waiting int) float64 {
	const far = 1000
	from, to := t.Forecast(waiting+far), t.Forecast(waiting+2*far)
	if from >= to || to >= pace.Never {
		return 0
	}
	return far / (to - from).Seconds()
}

var ofThrottle = []reading[throttleStats]{
	{
		upDown, "throttle.client.waiting", "{call}", "Calls that wait for their turn or for a retry.",
		func(s throttleStats, o observer) { o.count(int64(s.waiting)) },
	},
	{
		upDown, "throttle.client.in_flight", "{call}", "Calls in flight.",
		func(s throttleStats, o observer) { o.count(int64(s.inFlight)) },
	},
	{
		gauge, "throttle.client.rate", "{call}/s", "Rate at which calls of cost 1 start while some wait, learnt or set; absent while there is none, or it is unknown as with a Fleet.",
		func(s throttleStats, o observer) {
			if s.rate > 0 {
				o.number(s.rate)
			}
		},
	},
	{
		gauge, "throttle.client.forecast", "s", "How long a new call would wait for its turn by the rate; absent while that is unknown, as with a Fleet.",
		func(s throttleStats, o observer) {
			if s.forecast < pace.Never {
				o.time(s.forecast)
			}
		},
	},
	{
		counter, "throttle.client.fleet.requests", "{request}", "Requests to the Store of the Fleet, by whether it decided; absent without a Fleet.",
		func(s throttleStats, o observer) {
			if s.inFleet {
				o.count(s.fleet.Answered, keyOutcome.String("answered"))
				o.count(s.fleet.Failed, keyOutcome.String("failed"))
			}
		},
	},
}

// Group observes how many names g remembers. For the calls of its Throttles let
// Group.New set the OnEvent of each to that of one Counter, see [Metrics.Calls].
func (m *Metrics) Group(name string, g *throttle.Group) error {
	return register(m, "Group", name, g, ofGroup, (*throttle.Group).Len)
}

var ofGroup = []reading[int]{{
	upDown, "throttle.client.group.members", "{member}", "Names that a Group remembers.",
	func(n int, o observer) { o.count(int64(n)) },
}}
