package throttle

import (
	"context"
	"time"
)

// Terms are what one call wishes for. Zero fields ask for nothing.
type Terms struct {
	// Lane is the lane that it waits in, see [Throttle.Lanes]. One that does
	// not exist is lane 0.
	Lane int
	// MaxWait is the longest it will wait in line and between tries, from when
	// Do is called: when its turn, or that of a retry, is foreseen to come
	// later, or does, it is given up with context.DeadlineExceeded. A function
	// that runs is not interrupted.
	MaxWait time.Duration
	// Once makes no retry, however the call ends.
	Once bool
}

type termsKey struct{}

// With is ctx for calls on these terms, instead of those that ctx had. They hold
// for whatever Throttle a call comes to, through a throttlehttp.Transport too.
func With(ctx context.Context, t Terms) context.Context {
	return context.WithValue(ctx, termsKey{}, t)
}

func termsOf(ctx context.Context) Terms {
	t, _ := ctx.Value(termsKey{}).(Terms)
	return t
}
