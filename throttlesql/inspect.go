package throttlesql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Findings of Check: each line of its error wraps one of these.
var (
	ErrLayout    = errors.New("the schema is not the one of this version")
	ErrReadOnly  = errors.New("the server takes no writes")
	ErrPrivilege = errors.New("the role lacks a privilege")
	ErrIsolation = errors.New("the isolation level is not read committed")
	ErrVersion   = errors.New("the server is too old")
	ErrVacuum    = errors.New("vacuum is held back")
	ErrFence     = errors.New("the fence is in the future")
)

var findings = map[string]error{
	"layout": ErrLayout, "read-only": ErrReadOnly, "privilege": ErrPrivilege, "isolation": ErrIsolation,
	"version": ErrVersion, "vacuum": ErrVacuum, "fence": ErrFence,
}

// A finding is one line of Check.
type finding struct {
	kind error
	line string
}

func (f *finding) Error() string { return "throttlesql: check: " + f.line }
func (f *finding) Unwrap() error { return f.kind }

// Check reads the schema, the role and the settings behind Query, writes
// nothing, and returns the findings that break limits or slow decisions down: an
// error with one line for each, which says what is wrong, where, and what would
// be right. Each wraps one of ErrLayout, ErrReadOnly, ErrPrivilege,
// ErrIsolation, ErrVersion, ErrVacuum and ErrFence. With the last two, limits
// still hold.
//
// A transaction of another role is seen only with the rights of pg_read_all_stats.
func (s *Store) Check(ctx context.Context) error {
	n, err := namesOf(s.Table)
	if err != nil {
		return err
	}
	if s.Query == nil {
		return errNoQuery
	}
	var lines string
	text := n.in(strings.Replace(bare(checkSQL), "LAYOUT", s.layout(), 1))
	if err := s.Query(ctx, text).Scan(&lines); err != nil {
		return failedCheck(err)
	}
	var all []error
	for line := range strings.Lines(lines) {
		kind, line, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		all = append(all, &finding{findings[kind], line})
	}
	if len(all) == 0 || errors.Is(errors.Join(all...), ErrVacuum) {
		all = append(all, s.checkFence(ctx, n))
	}
	return errors.Join(all...)
}

// checkFence returns what is wrong with the fence, or nil.
func (s *Store) checkFence(ctx context.Context, n names) error {
	var ahead int64
	err := s.Query(ctx, n.in(`SELECT coalesce(max(since), 0) - (date_part('epoch', clock_timestamp()) * 1000000)::bigint FROM "throttle_fence" WHERE since > 0`)).Scan(&ahead)
	if err != nil {
		return failedCheck(err)
	}
	if ahead <= 0 {
		return nil
	}
	return &finding{ErrFence, n.in(fmt.Sprintf(`the fence in "throttle_fence" is %v ahead of the clock of PostgreSQL, which was put back, or it is that of another server: `+
		`a Take moves it to the present, and all keys start used up then; keep the clocks of the server and its standbys in step`, time.Duration(ahead)*time.Microsecond))}
}

// failedCheck returns the error of a statement of Check.
func failedCheck(err error) error {
	if stateOf(err) == "42501" {
		return &finding{ErrPrivilege, err.Error() + ": GRANT USAGE ON SCHEMA of the Table, and SELECT on it"}
	}
	return fmt.Errorf("throttlesql: check: %w", oneLine{err})
}
