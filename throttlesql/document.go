package throttlesql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Document is a rules.Shared in one row of PostgreSQL: changes of rules that were
// made by hand, shared by all instances, which poll it. Its table is written to the
// write-ahead log. It is safe for concurrent use; the fields must not change after
// first use.
type Document struct {
	// Query runs statements by the client.
	Query Query
	// Table is the table, as NAME or SCHEMA.NAME. If empty, "throttle_document".
	Table string
	// Name is the name of the row. If empty, "overlay".
	Name string
}

const maxDocument = 1 << 20

// query runs a statement about "throttle", which stands for the table, and scans
// the row that it returns, if any.
func (d *Document) query(ctx context.Context, text string, into any, args ...any) (found bool, err error) {
	n, err := namesOf(cmp.Or(d.Table, "throttle_document"))
	switch {
	case err != nil:
		return false, err
	case d.Query == nil:
		return false, errNoQuery
	}
	var dest []any
	if into != nil {
		dest = []any{into}
	}
	err = d.Query(ctx, n.in(text), args...).Scan(dest...)
	switch {
	case err == nil:
		return true, nil
	case isNoRows(err):
		return false, nil
	}
	return false, &documentError{d.name(), failed(err).(*Error)}
}

// documentError is an error of PostgreSQL about a Document.
type documentError struct {
	name string
	err  *Error
}

// Error returns the error in one line.
func (e *documentError) Error() string {
	return fmt.Sprintf("throttlesql: document %.100q: %v", e.name, oneLine{e.err.Err})
}

// Unwrap returns an [*Error].
func (e *documentError) Unwrap() error { return e.err }

// Unchanged reports whether it is certain that nothing was replaced.
func (e *documentError) Unchanged() bool { return !e.err.Charged }

func (d *Document) name() string { return cmp.Or(d.Name, "overlay") }

// Create creates the table if it is missing. It is safe for concurrent use, by
// several processes too.
func (d *Document) Create(ctx context.Context) error {
	_, err := d.query(ctx, `DO $throttlesql$ BEGIN
PERFORM pg_advisory_xact_lock(hashtext('throttlesql'), hashtext('"throttle"'));
IF to_regclass('"throttle"') IS NULL THEN
  CREATE TABLE "throttle" (name text PRIMARY KEY, data bytea NOT NULL);
END IF;
END $throttlesql$`, nil)
	return err
}

// Load returns the document and its version, the SHA-256 of its content; both empty
// if there is none.
func (d *Document) Load(ctx context.Context) (version string, data []byte, err error) {
	found, err := d.query(ctx, `SELECT data FROM "throttle" WHERE name = $1::text`, &data, d.name())
	switch {
	case err != nil || !found:
		return "", nil, err
	case len(data) > maxDocument:
		return "", nil, fmt.Errorf("throttlesql: document %.100q: longer than %d bytes", d.name(), maxDocument)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), data, nil
}

// Swap replaces the document if it still has the version old, which is empty if
// there is none yet, and returns the new version; not ok if it has another. After
// an error it is not known whether it was replaced, unless its method Unchanged
// reports that it was not.
func (d *Document) Swap(ctx context.Context, old string, data []byte) (version string, ok bool, err error) {
	if len(data) == 0 || len(data) > maxDocument {
		return "", false, fmt.Errorf("throttlesql: document %.100q: must be 1 to %d bytes", d.name(), maxDocument)
	}
	if old == "" {
		ok, err = d.query(ctx, `INSERT INTO "throttle" (name, data) VALUES ($1::text, $2::bytea) `+
			`ON CONFLICT (name) DO NOTHING RETURNING true`, new(bool), d.name(), data)
	} else {
		ok, err = d.query(ctx, `UPDATE "throttle" SET data = $2::bytea WHERE name = $1::text `+
			`AND encode(sha256(data), 'hex') = $3::text RETURNING true`, new(bool), d.name(), data, old)
	}
	if err != nil || !ok {
		return "", false, err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), true, nil
}
