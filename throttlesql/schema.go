package throttlesql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"unicode/utf8"
)

//go:embed tables.sql
var tablesSQL string

//go:embed take.sql
var takeSQL string

//go:embed several.sql
var severalSQL string

//go:embed sweep.sql
var sweepSQL string

//go:embed look.sql
var lookSQL string

//go:embed decide.sql
var decideSQL string

//go:embed whole.sql
var wholeSQL string

//go:embed slide.sql
var slideSQL string

const (
	defaultTable = "throttle"
	// longestName keeps the longest name that is made of it, with what
	// PostgreSQL adds for its index, within the 63 bytes beyond which
	// PostgreSQL cuts names off.
	longestName = 40
	// version is that of the functions. Whoever changes them or what they are
	// asked changes it, so that old and new programs can share the tables.
	version = "1"
)

// names are how a Store calls its table and functions.
type names struct{ schema, table string }

// namesOf reads a Table.
func namesOf(table string) (n names, err error) {
	if table == "" {
		table = defaultTable
	}
	n.table = table
	if schema, rest, found := strings.Cut(table, "."); found {
		n = names{schema, rest}
		if schema == "" {
			return n, badTable(table)
		}
	}
	plain := func(name string) bool { return utf8.ValidString(name) && !strings.ContainsAny(name, "\"'$\\.") }
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if n.table == "" || len(n.table) > longestName || len(n.schema) > longestName ||
		!plain(n.table) || !plain(n.schema) || strings.ContainsFunc(table, control) {
		return n, badTable(table)
	}
	return n, nil
}

func badTable(table string) error {
	return fmt.Errorf("throttlesql: table %.60q: write NAME or SCHEMA.NAME, each of 1 to %d bytes and without quotes, '$' and '\\'", table, longestName)
}

// quoted are the names in the SQL files.
var (
	quoted     = regexp.MustCompile(`"throttle(_[a-z]+)?"`)
	isFunction = regexp.MustCompile(`_(take|look|several|sweep)"$`)
)

// in is the text of a SQL file with these names.
func (n names) in(text string) string {
	prefix := ""
	if n.schema != "" {
		prefix = `"` + n.schema + `".`
	}
	h := fnv.New64a()
	h.Write([]byte(prefix + n.table))
	text = strings.ReplaceAll(text, "'throttle.since'", fmt.Sprintf("'throttle.since_%x'", h.Sum64()))
	return quoted.ReplaceAllStringFunc(text, func(name string) string {
		name = prefix + `"` + n.table + strings.TrimPrefix(name, `"throttle`)
		if isFunction.MatchString(name) {
			name = strings.TrimSuffix(name, `"`) + version + `"`
		}
		return name
	})
}

// Schema is the SQL that makes what a Store needs, as one statement to be run
// again at will: what is there stays as it is. It is for those who would rather
// run it themselves than call Create.
func (s *Store) Schema() (string, error) {
	n, err := namesOf(s.Table)
	if err != nil {
		return "", err
	}
	tables := tablesSQL
	if s.Logged {
		tables = strings.Replace(tables, `CREATE UNLOGGED TABLE "throttle" `, `CREATE TABLE "throttle" `, 1)
	}
	// The lock is for several that create at once: IF NOT EXISTS does not see
	// what another is about to make.
	return n.in(`DO $throttlesql$
DECLARE
  anew boolean := false;
BEGIN
PERFORM pg_advisory_xact_lock(hashtext('throttlesql'), hashtext('"throttle"'));

` + tables + `
IF to_regproc('"throttle_take"') IS NULL THEN

` + takeSQL + "\n" + lookSQL + "\n" + severalSQL + "\n" + sweepSQL + `
END IF;
END
$throttlesql$`), nil
}

// Create makes the tables and functions that are missing; see Schema. Several
// may do so at once. Whoever may not create needs nothing but that they are
// there, and the rights to select, insert, update and delete.
func (s *Store) Create(ctx context.Context) error {
	text, err := s.Schema()
	if err != nil {
		return err
	}
	if s.Query == nil {
		return errNoQuery
	}
	if err := s.Query(ctx, text).Scan(); err != nil && !isNoRows(err) {
		return fmt.Errorf("throttlesql: create: %w", err)
	}
	return nil
}

// isNoRows recognises the sql.ErrNoRows of any driver: some have one of their
// own, of the same words.
func isNoRows(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasSuffix(err.Error(), "no rows in result set") {
			return true
		}
	}
	return false
}
