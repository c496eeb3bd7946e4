package throttlesql

import (
	"context"
	"crypto/md5"
	_ "embed"
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

//go:embed layout.sql
var layoutSQL string

//go:embed check.sql
var checkSQL string

const (
	defaultTable = "throttle"
	// longestName keeps the longest name that is made of it, with what
	// PostgreSQL adds for its index, within the 63 bytes beyond which
	// PostgreSQL cuts names off.
	longestName = 40
	// version is that of the functions. It changes with them and with what they
	// are called with, so that old and new programs can share the tables.
	version = "2"
)

// names are those that the table and functions of a Store begin with.
type names struct{ schema, table string }

// namesOf parses a Table.
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

// The names in the SQL files.
var (
	quoted     = regexp.MustCompile(`"throttle(_[a-z]+)?"`)
	isFunction = regexp.MustCompile(`_(take|look|several|sweep)"$`)
)

// in returns the text of a SQL file with these names.
func (n names) in(text string) string {
	prefix := ""
	if n.schema != "" {
		prefix = `"` + n.schema + `".`
	}
	h := fnv.New64a()
	h.Write([]byte(prefix + n.table))
	text = strings.ReplaceAll(text, "'throttle.since'", fmt.Sprintf("'throttle.since_%x'", h.Sum64()))
	return quoted.ReplaceAllStringFunc(text, func(name string) string {
		end := strings.TrimPrefix(name, `"throttle`)
		if isFunction.MatchString(end) { // whatever the Table ends with
			end = strings.TrimSuffix(end, `"`) + version + `"`
		}
		return prefix + `"` + n.table + end
	})
}

// statements are the texts for one Table.
type statements struct{ whole, decide, slide, several, look, take, sweep string }

// statements returns the texts, which are made once.
func (s *Store) statements() (*statements, error) {
	if t := s.texts.Load(); t != nil {
		return t, nil
	}
	if s.Query == nil {
		return nil, errNoQuery
	}
	n, err := namesOf(s.Table)
	if err != nil {
		return nil, err
	}
	t := &statements{
		whole:  n.in(bare(wholeSQL)),
		decide: n.in(bare(decideSQL)),
		slide:  n.in(bare(slideSQL)),
		look: n.in(`SELECT at, coalesce(t, 0), coalesce(n, 0), coalesce(p, 0), coalesce(l, ''), since ` +
			`FROM "throttle_look"($1::bytea)`),
		several: n.in(`SELECT at, after::text, added FROM "throttle_several"(` +
			`$1::text::bytea[], $2::text::text[], $3::text::bigint[])`),
		take: n.in(`SELECT at, ok, states::text, array_to_string(under, E'\n', ''), added FROM "throttle_take"(` +
			`$1::text::bytea[], $2::text::text[], $3::text::text[], $4::text::bigint[])`),
		sweep: n.in(`SELECT gone, coalesce(next, -1) FROM "throttle_sweep"($1::bigint, $2::int, $3::bigint)`),
	}
	s.texts.Store(t)
	return t, nil
}

// bare returns a statement without its comments, as it is sent.
func bare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Schema returns the SQL that creates the tables and functions of a Store, as
// one statement that may be run any number of times: existing ones are
// unchanged. Use it to run the SQL yourself instead of calling Create.
func (s *Store) Schema() (string, error) {
	n, err := namesOf(s.Table)
	if err != nil {
		return "", err
	}
	tables := strings.Replace(tablesSQL, "LAYOUT", s.layout(), 1)
	if s.Logged {
		tables = strings.Replace(tables, `CREATE UNLOGGED TABLE "throttle" `, `CREATE TABLE "throttle" `, 1)
	}
	var functions strings.Builder
	for _, f := range functionsSQL {
		fmt.Fprintf(&functions, "\nIF to_regprocedure('%s') IS NULL THEN\n\n%s\nEND IF;\n", f.signature, f.text())
	}
	// The lock is for concurrent calls: IF NOT EXISTS does not see what another
	// session is about to make.
	return n.in(`DO $throttlesql$
DECLARE
  anew boolean := false;
  differs text;
BEGIN
PERFORM pg_advisory_xact_lock(hashtext('throttlesql'), hashtext('"throttle"'));

` + tables + functions.String() + `
END
$throttlesql$`), nil
}

// functionsSQL are the functions of the schema.
var functionsSQL = [...]struct {
	name, signature string
	text            func() string
}{
	{"take", `"throttle_take"(bytea[],text[],text[],bigint[])`, func() string { return takeSQL }},
	{"look", `"throttle_look"(bytea)`, func() string { return lookSQL }},
	{"several", `"throttle_several"(bytea[],text[],bigint[])`, func() string { return severalSQL }},
	{"sweep", `"throttle_sweep"(bigint,integer,bigint)`, func() string { return sweepSQL }},
}

// layout returns layout.sql, with the sums of the bodies of the functions, before
// the names of the Store are put in.
func (s *Store) layout() string {
	n, _ := namesOf(s.Table)
	text := strings.Replace(bare(layoutSQL), "'LOGGED'", fmt.Sprintf("'%v'", s.Logged), 1)
	for _, f := range functionsSQL {
		_, body, _ := strings.Cut(n.in(f.text()), "$"+f.name+"$")
		body, _, _ = strings.Cut(body, "$"+f.name+"$")
		text = strings.Replace(text, "MD5 "+f.name, fmt.Sprintf("%x", md5.Sum([]byte(body))), 1)
	}
	return text
}

// Create creates the tables and functions that are missing; see Schema. It is
// safe for concurrent use, by several processes too. It creates all of them or,
// if it returns an error, none: on a standby, where a table of another layout
// has the name, or where the role may not create them. docs/postgresql.md lists
// the rights that must be granted.
func (s *Store) Create(ctx context.Context) error {
	text, err := s.Schema()
	if err != nil {
		return err
	}
	if s.Query == nil {
		return errNoQuery
	}
	if err := s.Query(ctx, text).Scan(); err != nil && !isNoRows(err) {
		switch stateOf(err) {
		case "42501":
			err = fmt.Errorf("%w: the role that creates needs GRANT USAGE, CREATE ON SCHEMA; or let another role create, and GRANT what Check names", err)
		case "3F000":
			err = fmt.Errorf("%w: %s", err, advice["3F000"])
		}
		return fmt.Errorf("throttlesql: create: %w", oneLine{err})
	}
	return nil
}
