package throttleotel

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Attributes, the values of which are fixed, but for names and rules, which are
// bounded, and versions, of which there is one at a time.
const (
	keyName     = attribute.Key("throttle.name")
	keyVerdict  = attribute.Key("throttle.verdict")
	keyOutcome  = attribute.Key("throttle.outcome")
	keyReason   = attribute.Key("throttle.reason")
	keyState    = attribute.Key("throttle.state")
	keyPriority = attribute.Key("throttle.priority")
	keyRule     = attribute.Key("throttle.rule")
	keyDegraded = attribute.Key("throttle.degraded")
	keyVersion  = attribute.Key("throttle.version")
	keyGo       = attribute.Key("throttle.go")
)

// kind is that of an asynchronous instrument.
type kind uint8

const (
	counter kind = iota
	seconds      // a counter of time
	upDown       // what can be added up over processes
	gauge        // what cannot
)

// A reading is an instrument, and what it says of the stats S.
type reading[S any] struct {
	kind             kind
	name, unit, text string
	read             func(s S, o observer)
}

func (r reading[S]) make(m metric.Meter) (o observer, err error) {
	unit, text := metric.WithUnit(r.unit), metric.WithDescription(r.text)
	switch r.kind {
	case counter:
		o.whole, err = m.Int64ObservableCounter(r.name, unit, text)
	case upDown:
		o.whole, err = m.Int64ObservableUpDownCounter(r.name, unit, text)
	case seconds:
		o.real, err = m.Float64ObservableCounter(r.name, unit, text)
	case gauge:
		o.real, err = m.Float64ObservableGauge(r.name, unit, text)
	}
	return o, err
}

// An observer takes the values of one instrument during a collection.
type observer struct {
	whole metric.Int64Observable   // or
	real  metric.Float64Observable // nil
	attrs []attribute.KeyValue
	to    metric.Observer
}

func (o observer) any() metric.Observable {
	if o.whole != nil {
		return o.whole
	}
	return o.real
}

// count observes n, in a counter or upDown.
func (o observer) count(n int64, attrs ...attribute.KeyValue) {
	o.to.ObserveInt64(o.whole, n, o.with(attrs))
}

// number observes v, in a gauge.
func (o observer) number(v float64, attrs ...attribute.KeyValue) {
	o.to.ObserveFloat64(o.real, v, o.with(attrs))
}

// time observes d in seconds, in a gauge or a counter of time.
func (o observer) time(d time.Duration) { o.number(d.Seconds()) }

func (o observer) with(attrs []attribute.KeyValue) metric.ObserveOption { return o.set(attrs...) }

func (o observer) set(attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(o.attrs, attrs)...))
}
