package main

import (
	"net/http"
	"sync"
)

// The shop keeps one thing of each kind for each job:
//
//	PUT    /stock/{job}      reserves one piece; twice is once
//	POST   /charges/{job}    charges; twice is once if the Idempotency-Key is the same
//	POST   /shipments/{job}  sends a parcel; twice is two parcels
//	DELETE /{kind}/{job}     takes it back, and refuses it from then on
//
// A DELETE may come before what it takes back, or in its stead: a request that
// was given up may still be on its way. Hence "from then on". A parcel that has
// left cannot be taken back: 409, and so the caller knows that it has.
const (
	stock     = "stock"
	charges   = "charges"
	shipments = "shipments"
)

// shop is the service: its records of each job. It is safe for concurrent use.
type shop struct {
	mu     sync.Mutex // guards what follows
	things map[string]map[string]thing
	keys   map[string]bool
}

// thing is what was done of one kind for one job.
type thing struct {
	done int  // how often
	back bool // taken back, or never to be done
}

// holds is whether a thing is in force.
func (t thing) holds() bool { return t.done > 0 && !t.back }

func newShop() *shop {
	return &shop{
		things: map[string]map[string]thing{stock: {}, charges: {}, shipments: {}},
		keys:   map[string]bool{},
	}
}

func (s *shop) of(kind, job string) thing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.things[kind][job]
}

// ServeHTTP answers 200 or 201, 404, 409 and 410 as above; and 402 (Payment
// Required) when the card of a job is not good for the money.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(s.execute(r.Method, r.PathValue("kind"), r.PathValue("job"), r.Header.Get("Idempotency-Key")))
}

func (s *shop) execute(method, kind, job, key string) (status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.things[kind]
	t := all[job]
	switch {
	case all == nil:
		return http.StatusNotFound
	case method == http.MethodDelete && kind == shipments && t.done > 0:
		return http.StatusConflict
	case method == http.MethodDelete:
		t.back = true
		all[job] = t
		return http.StatusOK
	case t.back:
		return http.StatusGone
	case kind == charges && draw("card of "+job) < 20:
		return http.StatusPaymentRequired
	case kind == stock && t.done > 0, kind == charges && s.keys[key]:
		return http.StatusCreated // as before
	}
	t.done++
	all[job] = t
	if key != "" {
		s.keys[key] = true
	}
	return http.StatusCreated
}
