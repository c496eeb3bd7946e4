package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// pipes is a network inside this process: HTTP over it takes no time in a
// synctest bubble, while sockets would.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialled <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func overPipes(jobs int, naive bool) trial {
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	return trial{p, &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 20}, "http://shop.test", jobs, naive}
}

func mustRun(t *testing.T, tr trial) report {
	t.Helper()
	r, err := run(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	r.print(t.Output())
	return r
}

func (r report) check(t *testing.T) {
	t.Helper()
	if len(r.breaks) > 0 {
		t.Errorf("%d jobs are against the rules: %.300q; want none", len(r.breaks), r.breaks)
	}
}

// Thousands of jobs with faults: none is half done at the end, none charged or
// sent twice. All kinds of trouble came up, or this shows nothing.
func TestNoJobIsHalfDone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := mustRun(t, overPipes(2000, false))
		r.check(t)
		for what, n := range map[string]int{
			"jobs done": r.done, "jobs not done": r.jobs - r.done,
			"steps that surely had not run": r.surely, "steps that may have": r.perhaps,
			"parcels that had left": r.left, "steps without time": r.refused,
		} {
			if n < 3 {
				t.Errorf("%d %s, want some", n, what)
			}
		}
		if r.longest < time.Second || r.spent > 500*time.Millisecond {
			t.Errorf("steps were given up after %v as they would have had to wait %v; want at most 500ms, above 1s", r.spent, r.longest)
		}
	})
}

// The same for who believes that what failed did not happen. Half done is the
// rarest, so there are thousands of jobs here too.
func TestTheNaiveBreakEveryRule(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := mustRun(t, overPipes(3000, true))
		for _, rule := range []string{"half done", "charged twice", "sent twice", "sent without charge"} {
			if !strings.Contains(strings.Join(r.breaks, ", "), rule) {
				t.Errorf("no job was %s; want some, or the rules are never in danger", rule)
			}
		}
	})
}

// A context that ends in the middle of everything leaves nothing half done.
func TestShutdown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tr := overPipes(1000, false)
		service, stop := tr.serve()
		defer stop()
		service.pause = 0 // with one, some could not be taken back in time
		b := newBuyer(tr.url, tr.base, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.work(ctx, tr.jobs)
		if len(b.journal) > 0 {
			t.Errorf("%d jobs were left to be settled; want none, as they were taken back", len(b.journal))
		}
		r := tr.report(service, b)
		r.check(t)
		if r.done == 0 || r.done > 900 {
			t.Errorf("%d of %d jobs are done; want some", r.done, tr.jobs)
		}
	})
}

// A process that ends before it has taken anything back leaves the journal, and
// that is enough for the next one.
func TestCrash(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tr := overPipes(500, false)
		service, stop := tr.serve()
		defer stop()
		b := newBuyer(tr.url, tr.base, false)
		b.patience = 0
		b.work(t.Context(), tr.jobs)
		if len(b.journal) < 20 {
			t.Errorf("%d jobs are half done after the crash; want many, or this shows nothing", len(b.journal))
		}
		next := newBuyer(tr.url, tr.base, false)
		next.journal, next.done = b.journal, b.done
		if err := next.settleAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		tr.report(service, next).check(t)
	})
}

// The same over real sockets.
func TestOverSockets(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, trial{listener, new(http.Transport), "http://" + listener.Addr().String(), 60, false}).check(t)
}
