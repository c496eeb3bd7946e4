package throttleredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxChecked bounds the slots that Check looks at: enough to reach every node of
// a Cluster of some dozens.
const maxChecked = 256

// Check reads the settings of the Redis behind Do, in a Cluster of the nodes of
// many slots, and returns in one line what would break limits: ErrVersion if it
// is too old, ErrEvicts if it may evict keys. A caller may ignore either:
//
//	if err := store.Check(ctx); err != nil && !errors.Is(err, ErrEvicts) {
func (s *Store) Check(ctx context.Context) error {
	n := min(s.slotCount(), maxChecked)
	for i := range n {
		if err := s.checkSlot(ctx, i*s.slotCount()/n); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkSlot(ctx context.Context, slot int) error {
	about, err := s.info(ctx, slot, "server")
	if err != nil {
		return err
	}
	version := field(about, "redis_version") // Valkey has it too: 7.2.4
	if major, _, _ := strings.Cut(version, "."); !atLeast(major, 7) {
		return fmt.Errorf("throttleredis: version %.20q of Redis: %w", version, ErrVersion)
	}
	if about, err = s.info(ctx, slot, "memory"); err != nil {
		return err
	}
	policy := field(about, "maxmemory_policy")
	if most := field(about, "maxmemory"); most != "0" && policy != "noeviction" && policy != "" {
		return fmt.Errorf("throttleredis: maxmemory %s, maxmemory-policy %s: %w", most, policy, ErrEvicts)
	}
	return nil
}

// info returns a section of INFO of the node that serves a slot. A script asks,
// as a command without a key goes to any node. It has no #!lua, so that an old
// Redis runs it.
func (s *Store) info(ctx context.Context, slot int, section string) (string, error) {
	v, err := s.Do(ctx, "EVAL", luaInfo, "1", s.fenceName(slot), section)
	if err != nil {
		return "", &Error{Err: err}
	}
	text, ok := textOf(v)
	if !ok {
		return "", &Error{Err: errReply}
	}
	return text, nil
}

// field returns a field of INFO, or "".
func field(info, name string) string {
	_, rest, _ := strings.Cut("\n"+info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

func atLeast(number string, least int) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n >= least
}

// MaxExpect bounds how long Expect holds.
const MaxExpect = 24 * time.Hour

// Expect announces that the Redis process with this run_id, the 40 characters in
// INFO server, will take over from the one that serves now within a time, by the
// clock of Redis, and will have all that was written: a planned fail-over, or
// slots that move. Keys keep their states then. A slot counts as taken over when
// the process first answers for it: after that time, keys start empty there. The
// time is at most MaxExpect; make it short, as a fail-over within it is trusted
// even if writes are lost, and call [Store.Unexpect] if the plan is given up.
//
// The call must reach the process that serves now. Expect makes one call for each
// of Slots; the last announcement holds.
func (s *Store) Expect(ctx context.Context, process string, within time.Duration) error {
	if len(process) != processLen {
		return fmt.Errorf("throttleredis: process %.50q: is no run_id of 40 characters, as INFO server has it", process)
	}
	if within < time.Microsecond || within > MaxExpect {
		return fmt.Errorf("throttleredis: expected within %v: must be above zero and at most %v", within, MaxExpect)
	}
	return s.expect(ctx, process, within)
}

// Unexpect takes back what Expect announced, in one call for each of Slots. Where
// the process has taken over already, nothing changes.
func (s *Store) Unexpect(ctx context.Context) error { return s.expect(ctx, "", 0) }

func (s *Store) expect(ctx context.Context, process string, within time.Duration) error {
	us := strconv.FormatInt(within.Microseconds(), 10)
	for slot := range s.slotCount() {
		_, err := s.eval(ctx, &expectScript, []any{nil, nil, "1", s.fenceName(slot), process, us})
		if err != nil {
			return err
		}
	}
	return nil
}
