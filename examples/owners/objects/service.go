package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/examples/owners/internal/scene"
)

// most is how many objects a customer may have.
const most = 10

var customers = scene.Keys{"k1": "first", "k2": "second"}

// service keeps objects for its customers.
type service struct {
	quota admit.Quota
	db    database
}

// newService counts the objects of a customer again after so long. Zero is a
// minute.
func newService(fresh, lifetime time.Duration) *service {
	s := &service{db: database{lifetime: lifetime, tables: make(map[string]*table)}}
	s.quota.Count, s.quota.MaxAge = s.db.count, fresh
	return s
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /objects", s.create)
	mux.HandleFunc("DELETE /objects/{id}", s.delete)
	return mux
}

func (s *service) create(w http.ResponseWriter, r *http.Request) {
	customer := customers.Customer(r)
	c, err := s.quota.Create(r.Context(), customer, 1, most)
	defer c.Cancel() // gives back, unless Done
	if err != nil {
		http.Error(w, "could not count", http.StatusServiceUnavailable)
		return
	}
	if !c.OK { // not 429, as it is no help to come again
		http.Error(w, fmt.Sprintf("%d objects are enough, delete some first", c.Held), http.StatusForbidden)
		return
	}
	id, err := s.db.insert(customer, r.FormValue("broken") != "")
	if err != nil {
		http.Error(w, "could not store it", http.StatusInternalServerError)
		return
	}
	c.Done()
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, id)
}

func (s *service) delete(w http.ResponseWriter, r *http.Request) {
	customer := customers.Customer(r)
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !s.db.delete(customer, id) {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	s.quota.Deleted(customer, 1) // the next creation at the quota counts again
	w.WriteHeader(http.StatusNoContent)
}

// database is where the objects are. It takes its time, and notes what it is
// asked.
type database struct {
	lifetime time.Duration // of an object; zero: for ever
	mu       sync.Mutex
	tables   map[string]*table // by customer
}

// table is what the database has of one customer.
type table struct {
	objects map[int]time.Time // when each was made
	last    int               // id
	counted int               // how often
	most    int               // objects there at a time
}

// of is the table of a customer, without what has expired. Caller holds mu.
func (d *database) of(customer string, now time.Time) *table {
	t := d.tables[customer]
	if t == nil {
		t = &table{objects: make(map[int]time.Time)}
		d.tables[customer] = t
	}
	for id, made := range t.objects {
		if d.lifetime > 0 && now.Sub(made) >= d.lifetime {
			delete(t.objects, id)
		}
	}
	return t
}

// count is SELECT count(*) WHERE customer = ...
func (d *database) count(ctx context.Context, customer string) (int64, error) {
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.of(customer, time.Now())
	t.counted++
	return int64(len(t.objects)), nil
}

func (d *database) insert(customer string, broken bool) (id int, err error) {
	<-time.After(time.Millisecond)
	if broken {
		return 0, errors.New("the disk is full")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	t := d.of(customer, now)
	t.last++
	t.objects[t.last] = now
	t.most = max(t.most, len(t.objects))
	return t.last, nil
}

func (d *database) delete(customer string, id int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.of(customer, time.Now())
	_, there := t.objects[id]
	delete(t.objects, id)
	return there
}

// asked is how often the objects of a customer were counted, and how many there
// were at most.
func (d *database) asked(customer string) (counted, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.of(customer, time.Now())
	return t.counted, t.most
}
