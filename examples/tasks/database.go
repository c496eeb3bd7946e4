package tasks

import (
	"context"
	"database/sql"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// UserNames returns a query of which at most ten run at once. Up to 100 more wait,
// each for a second at most.
func UserNames(db *sql.DB) func(ctx context.Context, id int) (string, error) {
	queries := &throttle.Throttle{
		Control:     new(pace.Fixed), // no rate
		MaxInFlight: 10, MaxWaiting: 100, MaxWait: time.Second,
	}
	return func(ctx context.Context, id int) (string, error) {
		return throttle.Call(ctx, queries, func(ctx context.Context) (name string, err error) {
			err = db.QueryRowContext(ctx, "SELECT name FROM users WHERE id = $1", id).Scan(&name)
			return name, err
		})
	}
}
