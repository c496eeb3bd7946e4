package store

import (
	"context"
	"math"

	"github.com/throttle-go/throttle/limit"
)

// Clear forgets what key has used of l, also what it used under a larger limit before: a
// bucket is full again, a window unused, a debt forgiven. Redis keeps the usage of a sliding
// log apart from that under other kinds, and Clear forgets the one of l. It is one refund, so
// it works with every Store, and a concurrent Take comes either before or after it. Pass it
// the Store behind a [Guard], not the Guard: while the Store is away, that uses its fallback
// and returns no error.
func Clear(ctx context.Context, s Store, key string, l limit.Limit) error {
	_, err := Take(ctx, s, key, l, -math.MaxInt64)
	return err
}

// SetUsed sets what key has used of l to n, which may be more than the limit: it
// is charged as a debt, bounded as [limit.Ask.Debt] says. If n is zero or below,
// it is Clear. It clears first and then charges, so a request in between may
// pass that should not; an error may leave the key cleared. For a [Guard] see Clear.
func SetUsed(ctx context.Context, s Store, key string, l limit.Limit, n int64) error {
	if err := Clear(ctx, s, key, l); err != nil || n <= 0 {
		return err
	}
	_, err := s.Take(ctx, []limit.Ask{{Key: key, Limit: l, N: n, Debt: true}}, make([]limit.Decision, 1))
	return err
}
