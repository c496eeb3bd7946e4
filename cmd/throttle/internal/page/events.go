package page

import (
	"net/http"
	"slices"
	"time"
)

const mostEvents = 200

// event is one of GET /api/v1/events.
type event struct {
	Seq                        int64
	At                         time.Time
	What, On, As, By, Why, Err string
	Status                     int
}

// Kind is write, or program where it happened by itself.
func (e event) Kind() string {
	if e.As == "" {
		return "program"
	}
	return "write"
}

type eventsBody struct {
	Events []event // the latest first
	Kept   int
	More   int // that are not shown
}

// events are the writes of this process, and what happened to its parts.
func events(p *Page, r *http.Request, _ *frame) (any, error) {
	b := new(eventsBody)
	err := p.Call(r.Context(), "GET", "/api/v1/events", nil, b)
	slices.Reverse(b.Events)
	if n := len(b.Events); n > mostEvents {
		b.Events, b.More = b.Events[:mostEvents], n-mostEvents
	}
	return b, err
}
