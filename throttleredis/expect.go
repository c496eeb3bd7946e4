package throttleredis

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// MaxExpect bounds how long Expect holds.
const MaxExpect = 24 * time.Hour

// Expect announces that the Redis process with this run_id, the 40 characters in
// INFO server, will take over from the one that serves now within that time, by
// the clock of Redis, and will have all writes: a planned fail-over, or slots
// that move. Keys keep their states then. A slot counts as taken over when the
// process first answers for it: after that time, keys start used up there. The
// time is at most MaxExpect; make it short, as a fail-over within it is trusted
// even if writes are lost, and call [Store.Unexpect] if the plan is given up.
//
// The call must reach the process that serves now. Expect makes one call for each
// of Slots, 16 at once; the last announcement holds.
func (s *Store) Expect(ctx context.Context, process string, within time.Duration) error {
	if len(process) != processLen {
		return fmt.Errorf("throttleredis: process %.50q: is no run_id of 40 characters, as INFO server has it", process)
	}
	if within < time.Microsecond || within > MaxExpect {
		return fmt.Errorf("throttleredis: expected within %v: must be above zero and at most %v", within, MaxExpect)
	}
	return s.expect(ctx, process, within)
}

// Unexpect takes back the announcement of Expect, in one call for each of Slots.
// Where the process has taken over already, nothing changes.
func (s *Store) Unexpect(ctx context.Context) error { return s.expect(ctx, "", 0) }

func (s *Store) expect(ctx context.Context, process string, within time.Duration) error {
	us := strconv.FormatInt(within.Microseconds(), 10)
	return each(s.slotCount(), func(n int) error {
		sl, err := s.slot(n)
		if err != nil {
			return err
		}
		_, err = s.eval(ctx, &expectScript, []any{nil, nil, "1", sl.fence, process, us})
		return err
	})
}
