package throttleredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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

// Expect announces that the Redis process with this run_id, the 40 characters in
// INFO server, will take over from the one that serves now, and will have all
// that was written: a planned fail-over, or slots that move. Keys keep their
// states then. The call must reach the process that serves now. Expect makes one
// call for each of Slots.
func (s *Store) Expect(ctx context.Context, process string) error {
	if len(process) != 40 {
		return fmt.Errorf("throttleredis: process %.50q: is no run_id of 40 characters, as INFO server has it", process)
	}
	for slot := range s.slotCount() {
		_, err := s.eval(ctx, &expectScript, []any{nil, nil, "1", s.fenceName(slot), process})
		if err != nil {
			return err
		}
	}
	return nil
}
