// Command objects shows customers that create objects and do not delete them:
// they are refused at their quota until objects are deleted or expire, and the
// database is hardly asked.
//
//	go run ./examples/owners/objects
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/throttle-go/throttle/examples/owners/internal/scene"
)

func main() {
	scene.Main("who creates and never deletes is refused at its quota", func(ctx context.Context, out io.Writer) error {
		acts, err := play(ctx)
		if err != nil {
			return err
		}
		return show(out, acts)
	})
}

// act is creations of one customer, and what became of them.
type act struct {
	name   string
	key    string // of the customer
	remove []int  // objects that are deleted before
	n      int    // creations at once
	query  string

	tally   scene.Tally
	counted int // how often the database was asked, up to here
	most    int // objects that there were at a time, up to here
	took    time.Duration
}

// acts are played one after the other.
func acts() []*act {
	return []*act{
		{name: "100 at once", key: "k1", n: 100},
		{name: "100 at once", key: "k2", n: 100},
		{name: "3 deleted, 50 at once", key: "k1", remove: []int{1, 2, 3}, n: 50},
		{name: "1 deleted, one that fails", key: "k1", remove: []int{4}, n: 1, query: "?broken=1"},
		{name: "5 at once", key: "k1", n: 5},
	}
}

// play lets objects be created and deleted, and at last expire.
func play(ctx context.Context) (played []*act, err error) {
	played = acts()
	s := newService(0, 0)
	err = onStage(s, func(url string) error {
		for _, a := range played {
			if err := a.run(ctx, s, url); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	last := &act{name: "20 that expire, until all are made", key: "k1", n: 20}
	s = newService(minute, lifetime)
	err = onStage(s, func(url string) error { return last.insist(ctx, s, url) })
	return append(played, last), err
}

// In the last act a minute is short.
const minute, lifetime = 300 * time.Millisecond, 450 * time.Millisecond

// onStage calls f while s is served.
func onStage(s *service, f func(url string) error) error {
	url, stop, err := scene.Serve(s.routes())
	if err != nil {
		return err
	}
	defer stop()
	return f(url)
}

// run deletes, and then creates at once.
func (a *act) run(ctx context.Context, s *service, url string) error {
	caller, began := scene.Caller{URL: url, Key: a.key}, time.Now()
	for _, id := range a.remove {
		if gone, err := caller.Send(ctx, "DELETE", fmt.Sprintf("/objects/%d", id)); err != nil || gone.Status != http.StatusNoContent {
			return fmt.Errorf("deleting object %d: %d, %w", id, gone.Status, err)
		}
	}
	scene.AtOnce(a.n, func(int) { a.tally.Add(caller.Send(ctx, "POST", "/objects"+a.query)) })
	a.end(s, began)
	return a.tally.Err()
}

// insist creates one after the other, until n are made.
func (a *act) insist(ctx context.Context, s *service, url string) error {
	caller, began := scene.Caller{URL: url, Key: a.key}, time.Now()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for a.tally.Served() < a.n && a.tally.Err() == nil {
		a.tally.Add(caller.Send(ctx, "POST", "/objects"))
		<-ticker.C
	}
	a.end(s, began)
	return a.tally.Err()
}

func (a *act) end(s *service, began time.Time) {
	a.took = time.Since(began)
	a.counted, a.most = s.db.asked(customers[a.key])
}

func show(out io.Writer, played []*act) error {
	rows := []string{"creations|customer|sent|made|refused|failed|counted so far|most at a time"}
	for _, a := range played {
		t := &a.tally
		rows = append(rows, fmt.Sprintf("%s|%s|%d|%d|%d|%d|%d|%d", a.name, customers[a.key],
			t.Sent(), t.Served(), t.Of(http.StatusForbidden), t.Of(http.StatusInternalServerError), a.counted, a.most))
	}
	return scene.Table(out, rows...)
}
