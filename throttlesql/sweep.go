package throttlesql

import (
	"context"
	"fmt"
)

// sweepPages are how many are swept by one statement: a few thousand rows.
const sweepPages = 64

// Sweep deletes all rows that say nothing any more, in statements of some
// milliseconds each, and returns how many that were. Nothing depends on it: it
// gives room back where there were many more keys once. To be called once a day
// or less, by one process or several.
func (s *Store) Sweep(ctx context.Context) (n int64, err error) {
	t, err := s.statements()
	if err != nil {
		return 0, err
	}
	for page := int64(0); page >= 0; {
		var gone int64
		if err := s.Query(ctx, t.sweep, page, int64(sweepPages), int64(0)).Scan(&gone, &page); err != nil {
			return n, fmt.Errorf("throttlesql: sweep: %w", err)
		}
		n += gone
	}
	return n, nil
}
