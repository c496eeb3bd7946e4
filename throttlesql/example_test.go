package throttlesql_test

import (
	"context"
	"database/sql"
	"log"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

func ExampleStore() {
	db, err := sql.Open("pgx", "postgres://localhost/app") // or another driver of PostgreSQL
	if err != nil {
		log.Fatal(err)
	}
	store := &throttlesql.Store{Query: func(ctx context.Context, query string, args ...any) throttlesql.Row {
		return db.QueryRowContext(ctx, query, args...)
	}}
	ctx := context.Background()
	if err := store.Create(ctx); err != nil {
		log.Fatal(err)
	}
	asks := []limit.Ask{
		{Key: "customer 17", Limit: limit.Limit{Count: 100, Period: time.Minute}, N: 1},
		{Key: "all", Limit: limit.Limit{Count: 5000, Period: time.Second}, N: 1},
	}
	decisions := make([]limit.Decision, len(asks))
	ok, err := store.Take(ctx, asks, decisions) // all or nothing
	if err != nil {
		log.Fatal(err) // could not decide: let pass or not, on purpose
	}
	if !ok {
		log.Print("come again after ", decisions[limit.Binding(decisions)].RetryAfter)
	}
}
