package throttleredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxChecked bounds the slots whose nodes Check looks at: enough to reach every
// node of a Cluster of some dozens.
const maxChecked = 256

// Check looks for settings that would break limits, in the Redis behind Do, in a
// Cluster in the nodes of many slots, and returns an error of one line:
// ErrVersion if it is too old, ErrEvicts if it may evict keys, or the command or
// key that its user may not use. A caller may ignore what it accepts:
//
//	if err := store.Check(ctx); err != nil && !errors.Is(err, ErrEvicts) {
//
// Check also notes the process that serves each of Slots, in one call each, 16 at
// once, so that a slot that is first used after a fail-over is not taken for a new one.
// Call it when a process starts, and after a fail-over that Expect announced.
func (s *Store) Check(ctx context.Context) error {
	n := min(s.slotCount(), maxChecked)
	if err := each(n, func(i int) error { return s.checkSlot(ctx, i*s.slotCount()/n) }); err != nil {
		return err
	}
	return each(s.slotCount(), func(i int) error { return s.meet(ctx, i) })
}

// meet asks nothing of a slot, so that it has a fence.
func (s *Store) meet(ctx context.Context, n int) error {
	sl, err := s.slot(n)
	if err != nil {
		return err
	}
	c := newCommand(0)
	if _, err := s.call(ctx, sl, &c); err != nil {
		return permitted(err, "EVALSHA")
	}
	return nil
}

// checkSlot checks the node of a slot. A script asks, as a command without a key
// goes to any node. It has no #!lua, so that an old Redis runs it.
func (s *Store) checkSlot(ctx context.Context, n int) error {
	sl, err := s.slot(n)
	if err != nil {
		return err
	}
	for _, section := range []string{"server", "memory"} {
		about, err := s.text(ctx, luaInfo, []any{sl.fence}, section)
		if err == nil {
			err = checkInfo(section, about)
		}
		if err != nil {
			return err
		}
	}
	failure, err := s.text(ctx, luaCheck, []any{sl.fence, sl.fence + ":#check"})
	if err != nil || failure == "" {
		return err
	}
	command, why, _ := strings.Cut(failure, " ")
	return permitted(failed(fmt.Errorf("%s: %s", command, why)), command)
}

// checkInfo checks a section of INFO.
func checkInfo(section, about string) error {
	if section == "server" {
		version := field(about, "redis_version") // Valkey has it too: 7.2.4
		if major, _, _ := strings.Cut(version, "."); !atLeast(major, 7) {
			return fmt.Errorf("throttleredis: version %.20q of Redis: %w", version, ErrVersion)
		}
		return nil
	}
	policy := field(about, "maxmemory_policy")
	if most := field(about, "maxmemory"); most != "0" && policy != "noeviction" && policy != "" {
		return fmt.Errorf("throttleredis: maxmemory %s, maxmemory-policy %s: %w", most, policy, ErrEvicts)
	}
	return nil
}

// text runs a script that returns text.
func (s *Store) text(ctx context.Context, script string, keys []any, args ...any) (string, error) {
	all := append([]any{"EVAL", script, strconv.Itoa(len(keys))}, append(keys, args...)...)
	v, err := s.Do.send(ctx, all...)
	if err != nil {
		return "", permitted(failed(err), "EVAL or INFO")
	}
	text, ok := textOf(v)
	if !ok {
		return "", &Error{Err: errReply}
	}
	return text, nil
}

// permitted says what to do if err is that the user may not run a command, or that
// Redis has none.
func permitted(err error, command string) error {
	if unknown(err) {
		return fmt.Errorf("throttleredis: Redis does not know the command %s, which the scripts need: was it renamed or disabled? %w", command, errors.Unwrap(err))
	}
	if denied(err) {
		return fmt.Errorf("throttleredis: the user of Redis may not run %s on such keys; docs/redis.md has the ACL SETUSER line: %w", command, errors.Unwrap(err))
	}
	return err
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
