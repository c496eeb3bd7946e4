package crowd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

// ClientOrders are what the clients of a process are to do. Each has connections
// and a Transport of its own.
type ClientOrders struct {
	URL string
	// Clients is how many there are, with the names First and on.
	First, Clients int
	// Workers of each client call all the time. If zero, calls arrive at random,
	// Rate a second of each client, and beyond Line waiting calls are rejected.
	Workers int
	Rate    float64
	Line    int
	// For is how long; what is answered in the last Last of it counts.
	For, Last time.Duration
}

// Called is what clients have seen, of calls that ended within Last.
type Called struct {
	// Took is the time from the start of a try to its answer, if served.
	Took []time.Duration
	// Calls is how many arrived, Rejected how many found the line full.
	Calls, Rejected int
	Late            []time.Duration // of timers beside them
	Failed          string          // an error that there must not be
}

// crowd is the clients of a process.
type crowd struct {
	orders ClientOrders
	from   time.Time // of what counts

	mu     sync.Mutex
	called Called
}

// Call lets clients call a server.
func (p *Peer) Call(o ClientOrders, called *Called) error {
	ctx, cancel := context.WithCancel(context.Background()) // not with a deadline, which calls would go by
	defer cancel()
	time.AfterFunc(o.For, cancel)
	c := &crowd{orders: o, from: time.Now().Add(o.For - o.Last)}
	var all sync.WaitGroup
	for i := range o.Clients {
		name := fmt.Sprint(o.First + i)
		base := &http.Transport{MaxIdleConnsPerHost: 100}
		defer base.CloseIdleConnections()
		one := &http.Client{Transport: &throttlehttp.Transport{Base: base, Throttles: &throttle.Group{New: c.throttle}}}
		if o.Workers == 0 {
			all.Go(func() { c.arrive(ctx, one, name) })
		}
		for range o.Workers {
			all.Go(func() {
				for ctx.Err() == nil {
					c.call(ctx, one, name)
				}
			})
		}
	}
	all.Go(func() { c.late(ctx) })
	all.Wait()
	*called = c.called
	return nil
}

// throttle makes that of one client.
func (c *crowd) throttle(string) *throttle.Throttle {
	return &throttle.Throttle{MaxWaiting: c.orders.Line, OnEvent: func(e throttle.Event) {
		if e.Kind == throttle.Ends && e.Report.Verdict == pace.Served && e.At.After(c.from) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.called.Took = append(c.called.Took, e.Wait)
		}
	}}
}

// late sees how late timers are, on a machine that has other things to do.
func (c *crowd) late(ctx context.Context) {
	for ctx.Err() == nil {
		due := time.Now().Add(5 * time.Millisecond)
		time.Sleep(5 * time.Millisecond)
		if due.After(c.from) {
			c.called.Late = append(c.called.Late, time.Since(due)) // that of this goroutine alone
		}
	}
}

// arrive makes calls at random times.
func (c *crowd) arrive(ctx context.Context, client *http.Client, name string) {
	var all sync.WaitGroup
	defer all.Wait()
	for next := time.Now(); ctx.Err() == nil; {
		next = next.Add(time.Duration(rand.ExpFloat64() / c.orders.Rate * float64(time.Second)))
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
			all.Go(func() { c.call(ctx, client, name) })
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// call makes one call, and counts it.
func (c *crowd) call(ctx context.Context, client *http.Client, name string) {
	counts := time.Now().After(c.from)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.orders.URL, http.NoBody)
	if err == nil {
		req.Header.Set("X-Client", name)
		var a *http.Response
		if a, err = client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, a.Body)
			a.Body.Close()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if counts {
		c.called.Calls++
	}
	switch {
	case err == nil || ctx.Err() != nil: // or it is the end
	case errors.Is(err, throttle.ErrQueueFull):
		if counts {
			c.called.Rejected++
		}
	default:
		c.called.Failed = err.Error()
	}
}
