package throttleotel

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// unread are the fields of Stats that are no metric, and why.
var unread = map[string]string{
	"GuardStats.AwaySince": "an alarm says for how long",
	"GuardStats.LastErr":   "a text: log it in OnState",
	"FleetStats.LastErr":   "a text",
	"Status.Version":       "a text: log it in OnState",
	"Status.From":          "the age says more",
	"Status.Since":         "swaps say it",
	"Status.Err":           "a text, and counted in Failures",
	"Status.KeepErr":       "a text: log it in OnState",
}

// TestEveryFieldIsRead: each field of each Stats shows in a metric, or is known not
// to.
func TestEveryFieldIsRead(t *testing.T) {
	seen := map[string]bool{}
	fields(t, seen, ofCalls, func(s throttle.Stats) throttle.Stats { return s })
	fields(t, seen, ofThrottle, func(s throttle.FleetStats) throttleStats { return throttleStats{fleet: s, inFleet: true} })
	fields(t, seen, ofGuard, func(s store.GuardStats) store.GuardStats { return s })
	fields(t, seen, ofLeases, func(s store.LeasesStats) store.LeasesStats { return s })
	fields(t, seen, ofInFlight, func(s store.InFlightStats) store.InFlightStats { return s })
	fields(t, seen, ofShedder, func(s admit.ShedderStats) admit.ShedderStats { return s })
	fields(t, seen, ofRedis, func(s throttleredis.Stats) throttleredis.Stats { return s })
	fields(t, seen, ofSQL, func(s throttlesql.Stats) throttlesql.Stats { return s })
	fields(t, seen, ofRules, func(s rules.Status) sourceStats {
		return sourceStats{s, s.Age(time.Unix(1e9, 0))}
	})
	for name := range unread {
		if !seen[name] {
			t.Errorf("%s is said to be no metric, and is not a field", name)
		}
	}
}

// TestReadings: values that a busy world does not have, and which are absent.
func TestReadings(t *testing.T) {
	ofAll := func(all map[string]string) (text string) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			text += strings.TrimSuffix(name+" "+strings.ReplaceAll(all[name], "\n", " "), " ") + "; "
		}
		return strings.ReplaceAll(text, "throttle.", "")
	}
	for _, c := range []struct {
		got  map[string]string
		want string
	}{
		{
			read(ofRedis, throttleredis.Stats{Replaced: 1, Flushed: 2, Full: 3, Ahead: -4 * ms}),
			"store.clock.ahead -0.004; store.full 3; store.losses reason=flushed 2 reason=replaced 1; ",
		},
		{
			read(ofSQL, throttlesql.Stats{Lost: 1, Ahead: time.Minute}),
			"store.clock.ahead 60; store.losses reason=lost 1; ",
		},
		{
			read(ofRules, sourceStats{}),
			"rules.age; rules.refreshes outcome=failed 0 outcome=ok 0; rules.swaps 0; ",
		},
		{
			read(ofThrottle, throttleStats{forecast: pace.Never}),
			"client.fleet.requests; client.forecast; client.in_flight 0; client.rate; client.waiting 0; ",
		},
		{
			read(ofThrottle, throttleStats{waiting: 1, inFlight: 2, rate: 0.5, forecast: 3 * time.Second, fleet: throttle.FleetStats{Answered: 4, Failed: 5}, inFleet: true}),
			"client.fleet.requests outcome=answered 4 outcome=failed 5; client.forecast 3; client.in_flight 2; client.rate 0.5; client.waiting 1; ",
		},
		{
			read(ofShedder[len(ofShedder)-1:], admit.ShedderStats{}),
			"shedder.duration; ",
		},
		{
			read(ofGuard[:1], store.GuardStats{Slow: true}),
			"guard.state state=away 0 state=closed 0 state=slow 1; ",
		},
	} {
		if got := ofAll(c.got); got != c.want {
			t.Errorf("read\n%s\nwant\n%s", got, c.want)
		}
	}
}

// fields changes one field at a time, and one element of an array, of a zero
// From, and looks whether what readings read changes, in one instrument.
func fields[From, S any](t *testing.T, seen map[string]bool, readings []reading[S], of func(From) S) {
	t.Helper()
	var zero From
	base := read(readings, of(zero))
	kind := reflect.TypeFor[From]()
	for i := range kind.NumField() {
		name := kind.Name() + "." + kind.Field(i).Name
		seen[name] = true
		elements := 1
		if kind.Field(i).Type.Kind() == reflect.Array {
			elements = kind.Field(i).Type.Len()
		}
		for at := range elements {
			s := zero
			set(t, reflect.ValueOf(&s).Elem().Field(i), at)
			changed := differing(base, read(readings, of(s)))
			if _, isUnread := unread[name]; isUnread != (len(changed) == 0) {
				t.Errorf("%s [%d] changes %q; said to be no metric: %t", name, at, changed, isUnread)
			}
			if len(changed) > 1 {
				t.Errorf("%s [%d] changes %q, want one instrument", name, at, changed)
			}
		}
	}
}

// set makes a field, or the element of an array, something else than zero.
func set(t *testing.T, field reflect.Value, at int) {
	t.Helper()
	if field.Kind() == reflect.Array {
		field = field.Index(at)
	}
	switch v := field.Addr().Interface().(type) {
	case *int:
		*v = 7
	case *int64:
		*v = 7
	case *time.Duration:
		*v = 7 * time.Second
	case *bool:
		*v = true
	case *string:
		*v = "seven"
	case *rules.Origin:
		*v = rules.Kept
	case *time.Time:
		*v = time.Unix(7, 0)
	case *error:
		*v = errBoom
	default:
		t.Fatalf("no value for %v", field.Type())
	}
}

// read is what readings observe of s, a text for each instrument.
func read[S any](readings []reading[S], s S) map[string]string {
	all := map[string]string{}
	for _, r := range readings {
		var to recorder
		r.read(s, observer{to: &to})
		slices.Sort(to.lines)
		all[r.name] = strings.Join(to.lines, "\n")
	}
	return all
}

// differing are the instruments that read something else.
func differing(a, b map[string]string) (names []string) {
	for name := range a {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	return names
}

// recorder is a metric.Observer.
type recorder struct {
	embedded.Observer
	lines []string
}

func (r *recorder) ObserveInt64(_ metric.Int64Observable, v int64, options ...metric.ObserveOption) {
	r.ObserveFloat64(nil, float64(v), options...)
}

func (r *recorder) ObserveFloat64(_ metric.Float64Observable, v float64, options ...metric.ObserveOption) {
	set := metric.NewObserveConfig(options).Attributes()
	r.lines = append(r.lines, strings.TrimSpace(fmt.Sprint(set.Encoded(attribute.DefaultEncoder()), " ", v)))
}
