package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// tick commits each second, asks for the lag, says how things are, and sets how
// many writes may be in flight.
func (p *pipeline) tick(ctx context.Context) {
	every := time.NewTicker(p.o.every)
	defer every.Stop()
	var before worker.Stats
	complain := p.complain("kafka")
	gone := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		asking, cancel := context.WithTimeout(ctx, 10*p.o.every)
		if err := p.source.commit(asking); err != nil && ctx.Err() == nil {
			complain(err)
		}
		err := p.lag.ask(asking, p.admin, p.o.group, p.o.topic)
		cancel()
		var missing *topicGone
		if errors.As(err, &missing) {
			if gone++; gone == 3 { // a broker that has just started may not know it yet
				p.fatal(err)
			}
		} else if gone = 0; err != nil && ctx.Err() == nil {
			complain(err)
		}
		now := p.worker.Stats()
		p.say(before, now)
		before = now
		p.adapt(now)
	}
}

// say prints one line, and takes the latencies of the last second.
func (p *pipeline) say(before, now worker.Stats) {
	s := p.took.take()
	if s.n > 0 {
		p.typical.Store(int64(s.percentile(50)))
	}
	behind, _, _ := p.lag.get()
	fmt.Fprintf(p.log, "%s rows/s %.0f lag %d in flight %d of %d p50 %v p99 %v bound by %s refused %d failed %d timed out %d dead %d\n",
		time.Now().Format("15:04:05"), float64(now.Done-before.Done)/p.o.every.Seconds(), behind, now.InFlight, p.limit(),
		s.percentile(50).Round(10*time.Microsecond), s.percentile(99).Round(10*time.Microsecond), now.Bound,
		now.Throttled-before.Throttled, now.Failed-before.Failed, now.TimedOut-before.TimedOut, now.Dead)
}

// adapt lets the lag wish for more or less in flight, and ends a run that is to
// be done once.
func (p *pipeline) adapt(now worker.Stats) {
	behind, arriving, known := p.lag.get()
	if !known {
		return
	}
	p.throttle.SetMaxInFlight(wish(behind, arriving, p.o.within, time.Duration(p.typical.Load()), p.o.most))
	if p.o.once && behind == 0 && now.InFlight+now.Waiting+now.Resting+now.Ordered+now.Dying == 0 {
		p.fatal(errDone)
	}
}

// event is the Worker's OnEvent.
func (p *pipeline) event(e worker.Event) {
	switch e.Kind {
	case worker.Ends:
		if e.Verdict == pace.Served {
			p.took.add(e.Took)
		}
	case worker.Dies:
		fmt.Fprintf(p.log, "dead: %s offset %d after %d tries: %v\n", e.Name, e.Offset, e.Try, e.Err)
	case worker.DeadFails:
		fmt.Fprintf(p.log, "dead: %s offset %d does not get to %s: %v; again in %v\n", e.Name, e.Offset, p.o.dead, e.Err, e.Rest)
	case worker.Stops:
		p.fatal(fmt.Errorf("%s stops at offset %d after %d tries: %w; mend the record's cause, or start with -dead TOPIC to set such records aside", e.Name, e.Offset, e.Try, e.Err))
	case worker.Opens:
		fmt.Fprintf(p.log, "cassandra: does not serve: %v; probing it at most ten times a second\n", e.Err)
	case worker.Closes:
		fmt.Fprintln(p.log, "cassandra: serves again")
	}
}

// complain returns a function that prints an error at most every ten seconds.
func (p *pipeline) complain(of string) func(error) {
	var mu sync.Mutex
	var last time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) > 10*time.Second {
			last = now
			fmt.Fprintf(p.log, "%s: %v; it goes on by itself when that is over\n", of, err)
		}
	}
}
