package throttleredis

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
)

// slotsAtOnce bounds the slots that Check, Expect and Unexpect ask for at once: one
// after the other, 1024 of them take seconds over any network.
const slotsAtOnce = 16

// each calls f with 0 to n-1, some at once, until an error, and returns one.
func each(n int, f func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	run := func() error {
		for !failed.Load() {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	if n == 1 {
		return run()
	}
	var all sync.WaitGroup
	errs := make([]error, min(n, slotsAtOnce))
	for w := range errs {
		all.Go(func() {
			errs[w] = errGone // unless it ends by itself
			defer func() {
				if p := recover(); p != nil {
					errs[w] = &Error{Charged: true, Err: fmt.Errorf("the client panicked: %v", p)}
				}
				if errs[w] != nil {
					failed.Store(true)
				}
			}()
			errs[w] = run()
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}
