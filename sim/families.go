package sim

import (
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// families are all policies, in the order of tables.
var families = []family{
	{
		name: "none", about: "retries at once, for ever",
		settings: []Setting{inFlight},
		make: func(*values) Policy {
			return Policy{PerWorker: true, New: func() pace.Controller { return nil }}
		},
	},
	{
		name: "backoff", about: "exponential backoff as zombocom/rate_throttle_client does it",
		settings: backoffSettings("800ms", "1.2", "0s", "upward", "0.1"),
		make:     makeBackoff,
	},
	{
		name: "backoff-jitter", about: "exponential backoff with full jitter",
		settings: backoffSettings("100ms", "2", "20s", "full", "0"),
		make:     makeBackoff,
	},
	{
		name: "fixed", about: "a fixed rate, known beforehand",
		settings: []Setting{{"rate", "4", "requests a second of a process"}, {"burst", "1", "how many at once after a rest"}, inFlight},
		make: func(v *values) Policy {
			rate, burst := v.number("rate", 1e-6, 1e6), int(v.number("burst", 1, 1e6))
			return Policy{New: func() pace.Controller { return &pace.Fixed{Rate: rate, Burst: burst} }}
		},
	},
	{
		name: "aimd", about: "halves the rate when throttled, returns linearly",
		settings: []Setting{
			{"start", "10", "requests a second at first"},
			{"cut", "0.5", "factor when throttled"},
			{"step", "0.01", "requests a second more with each served"},
			inFlight,
		},
		make: func(v *values) Policy {
			c := peers.AIMD{Initial: v.number("start", 1e-6, 1e6), Cut: v.number("cut", 0.001, 0.999), Step: v.number("step", 1e-9, 1e6)}
			return Policy{New: func() pace.Controller { fresh := c; return &fresh }}
		},
	},
	{
		name: "autosleeper", about: "Sakthi Priyan's responsive exponential backoff",
		settings: []Setting{
			{"initial", "500ms", "first sleep"},
			{"max", "15m", "longest sleep"},
			{"up", "1.5", "factor on failure"},
			{"down", "0.9", "factor after threshold successes"},
			{"randomization", "0.3", "share by which a new sleep varies"},
			{"max-randomization", "2m", "most by which it varies"},
			{"threshold", "10", "successes before going down"},
		},
		make: makeAutoSleeper,
	},
	ruby("gradual", "rate_throttle_client's ExponentialIncreaseGradualDecrease", peers.RubyGradual),
	ruby("proportional", "rate_throttle_client's ExponentialIncreaseProportionalDecrease", peers.RubyProportional),
	ruby("proportional-remaining", "rate_throttle_client's ExponentialIncreaseProportionalRemainingDecrease", peers.RubyRemaining),
	{
		name: "aws-adaptive", about: "the adaptive retry mode of the AWS SDK for Go v2",
		settings: []Setting{
			{"attempts", "3", "tries of a call before it starts over; 0: no end"},
			{"quota", "500", "retry tokens, 5 for each retry that fails; 0: no end"},
			inFlight,
		},
		make: makeAWS,
	},
	{
		name: "adaptive", about: "ours; learns only from throttled answers, and obeys Retry-After",
		settings: adaptiveSettings,
		make:     func(v *values) Policy { return makeAdaptive(v, true) },
	},
	{
		name: "adaptive-informed", about: "ours; uses every hint that the server sends",
		settings: adaptiveSettings,
		make:     func(v *values) Policy { return makeAdaptive(v, false) },
	},
}

// inFlight is the setting of policies whose workers share one gate.
var inFlight = Setting{"in-flight", "0", "requests of a process in flight: a number, adaptive, adaptive-N with a slowdown of N, aimd, vegas or gradient2; 0: no bound"}

// bound reads how many may be in flight.
func (v *values) bound(p *Policy) {
	switch text := v.get(inFlight.Name); text {
	case "0":
		return
	case "adaptive":
		p.Concurrency = func() load.Law { return new(load.Adaptive) }
	case "aimd":
		p.Concurrency = func() load.Law { return new(load.AIMD) }
	case "vegas":
		p.Concurrency = func() load.Law { return new(load.Vegas) }
	case "gradient2":
		p.Concurrency = func() load.Law { return &load.Gradient2{Min: 1} }
	default:
		number, slowdown := strings.CutPrefix(text, "adaptive-")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxWorkers {
			v.fail("%s=%s: must be adaptive, adaptive-N, aimd, vegas, gradient2 or a number from 0 to %d", inFlight.Name, text, maxWorkers)
		}
		if slowdown {
			p.Concurrency = func() load.Law { return &load.Adaptive{Slowdown: float64(n)} }
		} else {
			p.MaxInFlight = n
		}
	}
	p.PerWorker = false
}

var adaptiveSettings = []Setting{
	{"probe", "60s", "how often it tries whether there is more to be had"},
	{"weight", "1", "how many ordinary clients a process is worth"},
	{"windows", "evenly", "how a fixed window that others share is spent: evenly or burst"},
	inFlight,
}

func makeAdaptive(v *values, blind bool) Policy {
	c := pace.Adaptive{Probe: v.duration("probe"), Weight: v.number("weight", 0.01, 100), Blind: blind}
	c.Burst = v.choice("windows", "evenly", "burst") == 1
	hears := Hints{RetryAfter: true, Crowded: true}
	if !blind {
		hears = Hints{Crowded: true, Remaining: true, RetryAfter: true, Reset: true, Full: true, Policy: true, Share: true}
	}
	return Policy{Hears: hears, New: func() pace.Controller { fresh := c; return &fresh }}
}

func backoffSettings(base, factor, longest, jitter, share string) []Setting {
	return []Setting{
		{"base", base, "first wait"},
		{"factor", factor, "by which each wait is longer than the one before"},
		{"step", "0s", "added to each wait instead, if above zero"},
		{"cap", longest, "longest wait; 0s: none"},
		{"jitter", jitter, "none, full, equal, decorrelated, plus-minus or upward"},
		{"spread", share, "share by which plus-minus and upward vary"},
		{"tries", "0", "tries of a call before it starts over; 0: no end"},
		{"decay", "0", "if above zero, all calls of a process share the wait, and so many served shorten it a step"},
	}
}

func makeBackoff(v *values) Policy {
	c := pace.Backoff{
		Base: v.duration("base"), Factor: v.number("factor", 1, 1000), Step: v.duration("step"),
		Cap: v.duration("cap"), Tries: int(v.number("tries", 0, 1e6)), Spread: v.number("spread", 0, 1),
	}
	if c.Cap == 0 {
		c.Cap = -1
	}
	c.Jitter = []pace.Jitter{
		pace.NoJitter, pace.FullJitter, pace.EqualJitter, pace.DecorrelatedJitter, pace.PlusMinusJitter, pace.UpwardJitter,
	}[v.choice("jitter", "none", "full", "equal", "decorrelated", "plus-minus", "upward")]
	if n := int(v.number("decay", 0, 1e6)); n > 0 {
		return Policy{New: func() pace.Controller { return &pace.DecayingBackoff{Backoff: c, Successes: n} }}
	}
	return Policy{PerWorker: true, New: func() pace.Controller { fresh := c; return &fresh }}
}

func makeAutoSleeper(v *values) Policy {
	c := peers.AutoSleeper{
		InitialInterval:         v.duration("initial"),
		MaxInterval:             v.duration("max"),
		MaxRandomization:        v.duration("max-randomization"),
		UpMultiplier:            v.number("up", 1, 1000),
		DownMultiplier:          v.number("down", 0, 1),
		RandomizationFactor:     v.number("randomization", 0, 1),
		DownMultiplierThreshold: int(v.number("threshold", 1, 1e6)),
	}
	return Policy{PerWorker: true, New: func() pace.Controller { fresh := c; return &fresh }}
}

func makeAWS(v *values) Policy {
	c := peers.AWS{Attempts: int(v.number("attempts", 0, 1e6)), Quota: int(v.number("quota", 0, 1e9))}
	if c.Attempts == 0 {
		c.Attempts = -1
	}
	if c.Quota == 0 {
		c.Quota = -1
	}
	return Policy{New: func() pace.Controller { fresh := c; return &fresh }}
}

func ruby(name, about string, kind peers.RubyKind) family {
	return family{
		name: name, about: about,
		settings: []Setting{
			{"limit", "4500", "the limit it takes the server to have"},
			{"min", "800ms", "least sleep when throttled"},
			{"multiplier", "1.2", "factor when throttled"},
			{"start", "0s", "sleep before the first call"},
		},
		make: func(v *values) Policy {
			c := peers.Ruby{
				Kind: kind, MaxLimit: int64(v.number("limit", 1, 1e9)), MinSleep: v.duration("min"),
				Multiplier: v.number("multiplier", 1, 1000), Initial: v.duration("start"),
			}
			hears := Hints{Remaining: kind == peers.RubyRemaining}
			return Policy{PerWorker: true, Hears: hears, New: func() pace.Controller { fresh := c; return &fresh }}
		},
	}
}
