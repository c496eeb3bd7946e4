package throttleotel

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"

	"github.com/throttle-go/throttle/admit"
)

type counted = admit.Counted

// Requests observes the counts of c: decisions about requests, by rule and
// reason. Set the OnEvent of the admit.Controls to c.OnEvent. Of all rules,
// reasons and names of Requests of one Metrics, 1000 combinations are counted
// separately, those seen first; further ones count under the rule _OTHER.
func (m *Metrics) Requests(name string, c *admit.Counter) error {
	return register(m, "Counter of requests", name, c, ofRequests, func(c *admit.Counter) map[counted]int64 {
		return m.series.bounded(name, c.Stats())
	})
}

// Reasons that are counted beside the one of the request.
const (
	shadow      = "shadow"
	shadowError = "shadow-error"
	refundError = "refund-error"
)

var ofRequests = []reading[map[counted]int64]{
	{
		counter, "throttle.server.requests", "{request}", "Requests decided, by rule and reason. They pass if unlimited, within, allowed, killed or away; they are refused if denied, no-key, over, busy, shed or undecided; the caller did not wait if gone.",
		func(s map[counted]int64, o observer) {
			for what, n := range s {
				switch what.Reason {
				case shadow, shadowError, refundError:
				default:
					o.count(n, ruled(what.Rule, keyReason.String(what.Reason), keyDegraded.Bool(what.Degraded))...)
				}
			}
		},
	},
	{
		counter, "throttle.server.shadow_refusals", "{request}", "Requests that a shadow rule would have refused.",
		func(s map[counted]int64, o observer) {
			for what, n := range s {
				if what.Reason == shadow {
					o.count(n, ruled(what.Rule)...)
				}
			}
		},
	},
	{
		counter, "throttle.server.failures", "{call}", "Calls to the Store that failed beside a decision: for a shadow rule, or for a refund.",
		func(s map[counted]int64, o observer) {
			o.count(s[counted{Reason: shadowError}], keyReason.String(shadowError))
			o.count(s[counted{Reason: refundError}], keyReason.String(refundError))
		},
	},
}

// ruled adds the attribute of a rule, if there is one.
func ruled(rule string, attrs ...attribute.KeyValue) []attribute.KeyValue {
	if rule != "" {
		attrs = append(attrs, keyRule.String(rule))
	}
	return attrs
}

const (
	// maxSeries bounds the time series by rule and reason of a Metrics.
	maxSeries = 1000
	// other is the rule of those beyond, a word of OpenTelemetry's conventions.
	other = "_OTHER"
)

// series are the combinations that have a time series of their own. They stay,
// so that no counter goes back.
type series struct {
	mu    sync.Mutex
	known map[one]bool
}

type one struct {
	name string // of the Counter
	counted
}

// bounded returns counts with at most maxSeries rules and reasons, of all names
// together, and what is beyond added up for each reason.
func (s *series) bounded(name string, counts map[counted]int64) map[counted]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = make(map[one]bool)
	}
	all := make(map[counted]int64, min(len(counts), maxSeries))
	for what, n := range counts {
		if key := (one{name, what}); !s.known[key] && what.Rule != "" {
			if len(s.known) < maxSeries {
				s.known[key] = true
			} else {
				what.Rule = other
			}
		}
		all[what] += n
	}
	return all
}
