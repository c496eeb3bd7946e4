package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/throttlehttp"
)

const (
	// longestLive bounds the time that one policy gets.
	longestLive = 30 * time.Second
	// startWithin is the time in which the workers start, as in package sim.
	startWithin = 50 * time.Millisecond
	// redrawn is how often progress is shown.
	redrawn = 100 * time.Millisecond
)

// liveServer is the server of a scenario, with its network, on loopback. Each
// path is an account of its own, which begins full.
type liveServer struct {
	scenario sim.Scenario
	limited  http.Handler
	luck     pace.Luck
	requests atomic.Int64

	http *http.Server
	url  string
	dial dialer        // nil is TCP
	done chan struct{} // closed when no more is accepted
}

// dialer connects clients with a liveServer, as http.Transport.DialContext does.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// serve starts the server on a free port; it needs a close.
func serve(s sim.Scenario, seed uint64) (*liveServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return serveOn(listener, nil, s, seed), nil
}

// serveOn starts the server, which closes the listener at its close. Of the hints
// a scenario may have it knows Remaining alone.
func serveOn(listener net.Listener, dial dialer, s sim.Scenario, seed uint64) *liveServer {
	v := &liveServer{scenario: s, luck: pace.Luck(seed), dial: dial, done: make(chan struct{})}
	v.url = "http://" + listener.Addr().String()
	limited := &throttlehttp.Handler{
		Control: &admit.Control{Limit: s.Server.Limit}, Headers: throttlehttp.Silent,
		Request: func(r *http.Request, q admit.Request) admit.Request {
			q.Key = r.URL.Path
			return q
		},
	}
	if s.Server.Hints.Remaining {
		limited.Headers = throttlehttp.OnlyRemaining
	}
	v.limited = limited
	v.http = &http.Server{
		Handler: v, ReadHeaderTimeout: longestLive,
		ErrorLog: log.New(io.Discard, "", 0), // clients that go away are no news
	}
	go func() {
		defer close(v.done)
		v.http.Serve(listener) // returns when closed
	}()
	return v
}

// close ends the requests in flight, which have lost their clients, and returns
// when nothing is accepted or answered any more.
func (v *liveServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	v.http.Shutdown(ctx)
	v.http.Close()
	<-v.done
}

// ServeHTTP answers as late as the network of the scenario would: half of the
// latency goes by before the decision, half after. What a timer is late by does
// not add up.
func (v *liveServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived, n := time.Now(), v.scenario.Network
	u := v.luck.Unit(int(v.requests.Add(1)))
	latency := time.Duration(float64(n.Latency) * (1 + n.Spread*(2*u-1)))
	if until(r.Context(), arrived.Add(latency/2)) {
		v.limited.ServeHTTP(w, r) // the answer stays in a buffer until we return
		until(r.Context(), arrived.Add(latency))
	}
}

// until waits; ok is whether ctx did not end before.
func until(ctx context.Context, at time.Time) (ok bool) {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// live is one policy being played.
type live struct {
	group   sim.Group
	policy  sim.Policy
	url     string
	begins  time.Time
	workers []*liveWorker
	bases   []*http.Transport // of the processes

	left                    atomic.Int64 // calls not yet begun
	sent, served, throttled atomic.Int64
	answered                atomic.Int64 // ns from sending tries to their answers, in all
}

// liveWorker makes one call after the other. Its fields belong to its
// goroutine, in which also every try is made.
type liveWorker struct {
	*live
	process int
	client  *http.Client
	start   time.Time
	want    time.Time // when its call came up
	wish    time.Time // when it wanted to send this try

	sent, served, throttled int64
	maxSleep                time.Duration
	last                    time.Time // when it was served last
	waits                   []time.Duration
}

// playLive lets the clients of the scenario do their work under the policy. It
// returns when all of them are through, or soon after ctx ends, without leaving
// anything behind. late is by how much answers took longer, on average, than the
// network of the scenario does. progress is called with how far they are.
func playLive(ctx context.Context, server *liveServer, p sim.Policy, seed uint64, progress func(string)) (r sim.Result, late time.Duration, err error) {
	l := &live{group: server.scenario.Clients[0], policy: p, url: server.url + "/" + p.Name}
	l.enrol(seed, server.dial)
	bounded, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// No deadline: a Throttle would act on it, and the simulation has none.
	bound := time.AfterFunc(longestLive, func() { fail(fmt.Errorf("not done after %v", longestLive)) })
	defer bound.Stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		var wg sync.WaitGroup
		for _, w := range l.workers {
			wg.Go(func() {
				if err := w.work(bounded); err != nil {
					fail(err)
				}
			})
		}
		wg.Wait()
	}()
	l.watch(over, progress)
	for _, base := range l.bases {
		base.CloseIdleConnections()
	}
	switch {
	case l.served.Load() == l.group.Work:
		late = time.Duration(l.answered.Load()/l.sent.Load()) - server.scenario.Network.Latency
		return l.result(server.scenario), late, nil
	case ctx.Err() != nil:
		return sim.Result{}, 0, errors.New(l.progress())
	}
	return sim.Result{}, 0, fmt.Errorf("%w; %s", context.Cause(bounded), l.progress())
}

// enrol makes the workers of all processes. Those of a process share one
// Transport, and with it one pace, unless the policy is each one's own.
func (l *live) enrol(seed uint64, dial dialer) {
	l.begins = time.Now()
	l.left.Store(l.group.Work)
	luck := pace.Luck(^seed)
	for process := range l.group.Processes {
		base := &http.Transport{MaxIdleConnsPerHost: l.group.Workers, DialContext: dial}
		l.bases = append(l.bases, base)
		var client *http.Client
		for i := range l.group.Workers {
			if i == 0 || l.policy.PerWorker {
				client = l.client(base)
			}
			after := luck.Unit(len(l.workers)) * float64(startWithin)
			l.workers = append(l.workers, &liveWorker{
				live: l, process: process, client: client,
				start: l.begins.Add(time.Duration(after)),
			})
		}
	}
}

// client is an HTTP client under the policy.
func (l *live) client(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: &throttlehttp.Transport{
		Base: counting{l, base},
		Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			control := l.policy.New()
			if control == nil {
				control = pace.All{} // there is no caller that would wait
			}
			return &throttle.Throttle{Control: control}
		}},
	}}
}

// watch tells progress until it is over.
func (l *live) watch(over <-chan struct{}, progress func(string)) {
	tick := time.NewTicker(redrawn)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			progress(l.progress())
		}
	}
}

func (l *live) progress() string {
	return fmt.Sprintf("%d of %d served, %d sent, %d refused", l.served.Load(), l.group.Work, l.sent.Load(), l.throttled.Load())
}

// work makes calls while there are any.
func (w *liveWorker) work(ctx context.Context) error {
	if !until(ctx, w.start) {
		return nil
	}
	for w.left.Add(-1) >= 0 {
		w.want = time.Now()
		w.wish = w.want
		if err := w.call(ctx); err != nil {
			return err
		}
		w.waits = append(w.waits, w.last.Sub(w.want))
	}
	return nil
}

// workerKey is under which a request's context has its *liveWorker.
type workerKey struct{}

func (w *liveWorker) call(ctx context.Context) error {
	req, err := http.NewRequestWithContext(context.WithValue(ctx, workerKey{}, w), http.MethodGet, w.url, nil)
	if err != nil {
		return err
	}
	answer, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		return errors.New("the answer was " + answer.Status)
	}
	return nil
}

// counting counts every try, and hides what such clients do not read.
type counting struct {
	*live
	base http.RoundTripper
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	w := req.Context().Value(workerKey{}).(*liveWorker)
	w.maxSleep = max(w.maxSleep, time.Since(w.wish))
	w.sent++
	c.sent.Add(1)
	sent := time.Now()
	answer, err := c.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	w.wish = time.Now()
	c.answered.Add(int64(w.wish.Sub(sent)))
	switch answer.StatusCode {
	case http.StatusNoContent:
		w.served++
		w.last = w.wish
		c.served.Add(1)
	case http.StatusTooManyRequests:
		w.throttled++
		c.throttled.Add(1)
	}
	if !c.policy.Hears.Remaining {
		answer.Header.Del("RateLimit-Remaining")
	}
	return answer, nil
}
