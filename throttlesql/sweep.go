package throttlesql

import (
	"context"
	"fmt"
)

const (
	// sweepPages is how many pages one statement of Sweep looks at: a few
	// thousand rows.
	sweepPages = 64
	// rowsPerPage is how many new rows there are for each page that is swept.
	rowsPerPage = 8
	// maxPages bounds the pages that are swept after one Take.
	maxPages = 4
	// minIdle is for how long, in microseconds, a row must have been expired to
	// be swept after a Take. Were it zero, rows of keys that are often used but
	// rarely owe anything would be deleted and inserted all the time.
	minIdle = 60_000_000
)

// Sweep deletes all expired rows, in statements of some milliseconds each, and
// returns their number. No decision depends on it: it frees space where there
// were many more keys before. Call it once a day or less, from one process or
// several.
func (s *Store) Sweep(ctx context.Context) (n int64, err error) {
	t, err := s.statements()
	if err != nil {
		return 0, err
	}
	for page := int64(0); page >= 0; {
		var gone int64
		if err := s.Query(ctx, t.sweep, page, int64(sweepPages), int64(0)).Scan(&gone, &page); err != nil {
			return n, fmt.Errorf("throttlesql: sweep: %w", oneLine{err})
		}
		n += gone
	}
	return n, nil
}

// sweepFor counts n new rows, and sweeps a page for each rowsPerPage of them. Its
// errors do not matter: the decision has been made.
func (s *Store) sweepFor(ctx context.Context, t *statements, n int64) {
	now := s.added.Add(n)
	if pages := now/rowsPerPage - (now-n)/rowsPerPage; pages > 0 {
		var gone, next int64
		_ = s.Query(ctx, t.sweep, int64(-1), min(pages, maxPages), int64(minIdle)).Scan(&gone, &next)
	}
}
