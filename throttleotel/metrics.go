package throttleotel

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Scope is the name of the instrumentation scope of all metrics.
const Scope = "github.com/throttle-go/throttle/throttleotel"

// maxNames bounds the names of a kind, so that at most 800 time series of an
// instrument exist: a Shedder has 8. The SDK keeps 2000.
const maxNames = 100

// Metrics registers parts of throttle, each under a name, which is the attribute
// throttle.name of its metrics; an empty name is left out. The zero value is
// ready. It is safe for concurrent use and must not be copied after first use.
// It starts no goroutine.
//
// A name is used once for each kind of part, and a kind has at most 100 names;
// beyond that, and for a nil pointer, a method returns an error and registers
// nothing. So names are for what stands in the code or the configuration, never
// for keys, hosts or customers: one Counter serves many Throttles or Handlers. No
// metric has a key.
//
// The fields of a part must be set before it is registered. Until Unregister the
// MeterProvider keeps it in memory.
type Metrics struct {
	// Provider makes the instruments. If nil, the global one, also where it is
	// set later. It must not change after first use.
	Provider metric.MeterProvider

	mu     sync.Mutex // guards parts; not held while the Provider is called
	parts  map[part]metric.Registration
	series series
}

// part is a name in use. Its Registration is nil while it is being made.
type part struct{ kind, name string }

// Unregister removes all parts registered so far. Their names may be used again.
// An error is that of the Provider.
func (m *Metrics) Unregister() error {
	m.mu.Lock()
	var all []metric.Registration
	for p, r := range m.parts {
		if r != nil {
			all = append(all, r)
			delete(m.parts, p)
		}
	}
	m.mu.Unlock()
	var errs []error
	for _, r := range all {
		errs = append(errs, r.Unregister())
	}
	return errors.Join(errs...)
}

// register makes the instruments of readings, which stats of the value are read
// for when a reader collects.
func register[T, S any](m *Metrics, kind, name string, value *T, readings []reading[S], stats func(*T) S) error {
	if value == nil {
		return fmt.Errorf("throttleotel: the %s %q is nil", kind, name)
	}
	p := part{kind, name}
	if err := m.reserve(p); err != nil {
		return err
	}
	r, err := observeAll(m.meter(), readings, func(see func(string, S)) { see(name, stats(value)) })
	return m.registered(p, r, err)
}

// registered notes what has become of a name in use.
func (m *Metrics) registered(p part, r metric.Registration, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.parts, p)
		return fmt.Errorf("throttleotel: the %s %q: %w", p.kind, p.name, err)
	}
	m.parts[p] = r
	return nil
}

// reserve makes a name one in use.
func (m *Metrics) reserve(p part) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, used := m.parts[p]; used {
		return fmt.Errorf("throttleotel: there is a %s %q already: register it once, or give it another name", p.kind, p.name)
	}
	n := 0
	for other := range m.parts {
		if other.kind == p.kind {
			n++
		}
	}
	if n >= maxNames {
		return fmt.Errorf("throttleotel: no room for the %s %q beside %d others: let them share a Counter, or observe fewer", p.kind, p.name, n)
	}
	if m.parts == nil {
		m.parts = make(map[part]metric.Registration)
	}
	m.parts[p] = nil
	return nil
}

func (m *Metrics) meter() metric.Meter {
	if m.Provider == nil {
		return otel.Meter(Scope)
	}
	return m.Provider.Meter(Scope)
}

// observeAll makes the instruments of readings, and one callback for all of them, which
// each calls with a function that takes the name and the values of each part.
func observeAll[S any](meter metric.Meter, readings []reading[S], each func(see func(name string, s S))) (metric.Registration, error) {
	made := make([]observer, len(readings))
	all := make([]metric.Observable, len(readings))
	for i, r := range readings {
		o, err := r.make(meter)
		if err != nil {
			return nil, err
		}
		made[i], all[i] = o, o.any()
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		each(func(name string, s S) {
			var attrs []attribute.KeyValue
			if name != "" {
				attrs = []attribute.KeyValue{keyName.String(name)}
			}
			for i, o := range made {
				o.to, o.attrs = to, attrs
				readings[i].read(s, o)
			}
		})
		return nil
	}, all...)
}
