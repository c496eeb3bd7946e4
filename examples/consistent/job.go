package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

// steps are those of a job, in order.
var steps = []struct{ kind, method string }{
	{stock, http.MethodPut},
	{charges, http.MethodPost},
	{shipments, http.MethodPost},
}

// buy makes a job. If a step does not come through, those that may have run are
// taken back, last first, and the error says why: of the job, nothing remains. A
// job for which that is not certain yet stays in the journal, for settle.
func (b *buyer) buy(ctx context.Context, job string) error {
	for i, s := range steps {
		b.begun(job, i+1)
		mayHaveRun, err := b.step(ctx, s.method, s.kind, job)
		if err == nil {
			continue
		}
		if !mayHaveRun || b.naive {
			b.begun(job, i)
		}
		if done, undone := b.takeBack(ctx, job); !done {
			return errors.Join(fmt.Errorf("%s of %s: %w", s.kind, job, err), undone)
		}
		return nil
	}
	b.over(job, true)
	return nil
}

// step makes one step. It is given up at once if its turn would come too late.
func (b *buyer) step(ctx context.Context, method, kind, job string) (mayHaveRun bool, err error) {
	began := time.Now()
	status, mayHaveRun, err := b.send(throttle.WithOptions(ctx, throttle.CallOptions{Priority: forward, MaxWait: b.maxWait}), method, kind, job)
	if err == nil && status != http.StatusCreated {
		err = errors.New(http.StatusText(status))
	}
	if err == nil {
		return true, nil
	}
	var gaveUp *throttle.Error
	b.count(func(t *tally) {
		if errors.As(err, &gaveUp) && gaveUp.Wait > 0 && gaveUp.Wait != pace.Never {
			t.refused++
			t.longest = max(t.longest, gaveUp.Wait)
			t.spent = max(t.spent, time.Since(began))
		}
		if mayHaveRun {
			t.perhaps++
		} else {
			t.surely++
		}
	})
	return mayHaveRun, err
}

// takeBack takes back what may have run of a job, last first. done is whether
// that cannot be, as the parcel has left: then all steps have come through. An
// error leaves the rest in the journal.
func (b *buyer) takeBack(ctx context.Context, job string) (done bool, err error) {
	// What ended ctx shall not leave the job half done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.patience)
	defer cancel()
	b.mu.Lock()
	n := b.journal[job]
	b.mu.Unlock()
	for ; n > 0; n-- {
		err := b.undo.Do(throttle.WithOptions(ctx, throttle.CallOptions{}), func(ctx context.Context) error {
			return b.undoOnce(ctx, steps[n-1].kind, job)
		})
		if errors.Is(err, errLeft) {
			b.count(func(t *tally) { t.left++ })
			b.over(job, true)
			return true, nil
		}
		if err != nil {
			return false, err
		}
		b.begun(job, n-1)
	}
	b.over(job, false)
	return false, nil
}

// errLeft says that a parcel has left.
var errLeft = errors.New("the parcel has left")

// undoOnce asks once to take back one step. As that may be done twice, whatever
// fails is retried, by one layer: b.undo, not the Transport.
func (b *buyer) undoOnce(ctx context.Context, kind, job string) error {
	status, _, err := b.send(throttle.WithOptions(ctx, throttle.CallOptions{Priority: back, Once: true}), http.MethodDelete, kind, job)
	var gaveUp *throttle.Error
	switch {
	case errors.As(err, &gaveUp) && gaveUp.Wait > 0:
		return err // no time now, and it is known when
	case err != nil:
		return throttle.Failed(err)
	case status == http.StatusOK:
		return nil
	case status == http.StatusConflict:
		return errLeft
	case status == http.StatusTooManyRequests:
		return throttle.Throttled(errors.New(http.StatusText(status)), 0) // the Transport knows for how long
	}
	return throttle.Failed(errors.New(http.StatusText(status)))
}

// settle takes back all jobs in the journal; no job may be running. wait is
// after how long to come again, zero if nothing is left.
func (b *buyer) settle(ctx context.Context) (wait time.Duration) {
	b.mu.Lock()
	open := slices.Sorted(maps.Keys(b.journal))
	b.mu.Unlock()
	for _, job := range open {
		_, err := b.takeBack(ctx, job)
		var gaveUp *throttle.Error
		switch {
		case err == nil:
			b.count(func(t *tally) { t.later++ })
		case errors.As(err, &gaveUp) && gaveUp.Wait > 0 && gaveUp.Wait != pace.Never:
			wait = max(wait, gaveUp.Wait)
		default:
			wait = max(wait, b.patience)
		}
	}
	return wait
}

// send makes one request. mayHaveRun is of use if the answer is not what was
// hoped for.
func (b *buyer) send(ctx context.Context, method, kind, job string) (status int, mayHaveRun bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, b.url+"/"+kind+"/"+job, nil)
	if err != nil {
		return 0, false, err
	}
	if kind == charges && !b.naive {
		req.Header.Set("Idempotency-Key", job)
	}
	a, err := b.client.Do(req)
	mayHaveRun = throttlehttp.MayHaveRun(a, err)
	if err != nil {
		return 0, mayHaveRun, err
	}
	a.Body.Close()
	return a.StatusCode, mayHaveRun, nil
}
