package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/pace"
)

// sender sends one request. The error says why no answer came, or why it is of
// no use.
type sender interface {
	send(ctx context.Context) (seen, error)
}

// prober sends what a plan asks for, within its bounds.
type prober struct {
	to       sender
	url      string // of the service, for an error
	reader   reader
	plan     fit.Plan
	failures int               // the most that may fail
	show     func(text string) // progress

	seen    []seen
	answers []fit.Answer
	sent    int
	refused int
	failed  int
	why     error     // why the last one failed
	began   time.Time // the first was sent
	ended   string    // the bound that ended it, if one did
}

// progress shows a line on a terminal.
func progress(w io.Writer) func(string) { return terminal.Progress(w) }

// run sends until the plan is content or a bound is reached. The first request
// goes alone: what cannot be reached gets no more.
func (p *prober) run(ctx context.Context) error {
	p.began = time.Now()
	first := fit.Step{At: p.began, N: 1, AtOnce: 1, Refusals: 1, Why: "one request"}
	for step, more := first, true; more; step, more = p.next(ctx) {
		if err := p.take(ctx, step); err != nil {
			return err
		}
		if p.ended != "" {
			break
		}
	}
	if ctx.Err() != nil {
		return p.interrupted()
	}
	return nil
}

// next asks the plan. An interrupt does not wait for its answer.
func (p *prober) next(ctx context.Context) (step fit.Step, more bool) {
	type answer struct {
		step fit.Step
		more bool
	}
	got := make(chan answer, 1)
	now, answers := time.Now(), p.answers[:len(p.answers):len(p.answers)]
	go func() {
		step, more := p.plan.Next(now, answers)
		got <- answer{step, more}
	}()
	select {
	case a := <-got:
		return a.step, a.more
	case <-ctx.Done():
		return fit.Step{}, false
	}
}

func (p *prober) interrupted() error {
	return exit.Failf("find: interrupted: %s sent, %d refused", words.Plural(p.sent, "request", "requests"), p.refused)
}

// outcome is what became of one request.
type outcome struct {
	seen
	err error
}

// take does one step, and waits for all its answers.
func (p *prober) take(ctx context.Context, s fit.Step) error {
	done := make(chan outcome, max(s.AtOnce, 1)) // holds all that are in flight
	inFlight, refusals := 0, p.refused+max(s.Refusals, 1)
	collect := func(o outcome) {
		inFlight--
		p.note(ctx, o)
		p.tell(s.Why)
	}
	p.tell(s.Why)
	due := s.At
	for n := 0; n < s.N && p.refused < refusals && !p.spent(due); {
		if inFlight >= s.AtOnce {
			collect(<-done)
			continue
		}
		if wait := time.Until(due); wait > 0 {
			if !pause(ctx, wait, done, collect) {
				break
			}
			continue
		}
		if ctx.Err() != nil {
			break
		}
		due = time.Now().Add(s.Every)
		n, inFlight, p.sent = n+1, inFlight+1, p.sent+1
		go func() {
			a, err := p.to.send(ctx)
			done <- outcome{a, err}
		}()
	}
	for inFlight > 0 {
		collect(<-done)
	}
	return p.verdict(ctx)
}

// pause waits so long, or for one answer; false means that ctx ended.
func pause(ctx context.Context, wait time.Duration, done <-chan outcome, collect func(outcome)) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case o := <-done:
		collect(o)
	case <-ctx.Done():
		return false
	}
	return true
}

// spent reports whether a bound forbids to send another at that time.
func (p *prober) spent(at time.Time) bool {
	switch {
	case p.sent >= p.plan.Requests:
		p.ended = "-requests " + fmt.Sprint(p.plan.Requests)
	case p.refused >= p.plan.Refusals:
		p.ended = "-refusals " + fmt.Sprint(p.plan.Refusals)
	case at.Sub(p.began) > p.plan.Time, time.Since(p.began) > p.plan.Time:
		p.ended = "-for " + words.Short(p.plan.Time)
	case p.failed >= p.failures:
		p.ended = "-failures " + fmt.Sprint(p.failures)
	default:
		return false
	}
	return true
}

// note notes an answer. One that was given up is not worth it.
func (p *prober) note(ctx context.Context, o outcome) {
	if o.err != nil && ctx.Err() != nil {
		return
	}
	p.seen = append(p.seen, o.seen)
	reading := p.reader.read(o.seen)
	a := answerOf(o.seen, reading)
	p.answers = append(p.answers, a)
	switch {
	case a.Refused:
		p.refused++
	case o.err != nil:
		p.failed, p.why = p.failed+1, o.err
	case reading.Verdict == pace.Failed:
		p.failed, p.why = p.failed+1, fmt.Errorf("it answers %d %s", o.status, http.StatusText(o.status))
	}
}

// verdict is the error that ends the work, if any.
func (p *prober) verdict(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return p.interrupted()
	case p.failed > 0 && len(p.seen) == 1:
		return exit.Failf("find: %s: %v", p.url, p.why)
	case p.failed >= p.failures:
		return exit.Failf("find: %s: %d of %s failed; the last: %v", p.url, p.failed, words.Plural(p.sent, "request", "requests"), p.why)
	}
	return nil
}

func (p *prober) tell(why string) {
	p.show(fmt.Sprintf("%s: %d of at most %d requests, %d refused; %s", time.Since(p.began).Round(100*time.Millisecond), p.sent, p.plan.Requests, p.refused, why))
}
