package tasks

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
)

// A slow database takes 300 ms for each query.
type slow struct{ running, most atomic.Int64 }

func (s *slow) Connect(context.Context) (driver.Conn, error) { return conn{s}, nil }
func (s *slow) Driver() driver.Driver                        { return nil }

type conn struct{ *slow }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c conn) Close() error                        { return nil }

func (c conn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	n := c.running.Add(1)
	defer c.running.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	time.Sleep(300 * time.Millisecond)
	return &name{}, nil
}

// name is a row with a name.
type name struct{ read bool }

func (n *name) Columns() []string { return []string{"name"} }
func (n *name) Close() error      { return nil }

func (n *name) Next(row []driver.Value) error {
	if n.read {
		return io.EOF
	}
	n.read, row[0] = true, "a name"
	return nil
}

// TestUserNames: of 200 callers at once, ten start at 0, 0.3, 0.6 and 0.9 s.
func TestUserNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s slow
		db := sql.OpenDB(&s)
		defer db.Close()
		names := UserNames(db)
		var ended counts
		for range 200 {
			ended.loops.Go(func() {
				name, err := names(t.Context(), 42)
				switch {
				case err == nil:
					ended.add(name)
				case errors.Is(err, throttle.ErrQueueFull):
					ended.add("full")
				case errors.Is(err, context.DeadlineExceeded):
					ended.add("late")
				default:
					t.Error(err)
				}
			})
		}
		ended.wait()
		if most := s.most.Load(); most != 10 {
			t.Errorf("%d queries ran at once, want 10", most)
		}
		says(t, 5, fmt.Sprintf("200 callers at once: %d served, %d waited for a second in vain, %d refused at once\n",
			ended.n["a name"], ended.n["late"], ended.n["full"]))
	})
}
