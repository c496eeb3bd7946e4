package integration

import (
	"database/sql"
	"errors"
	"net/url"
	"testing"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestPostgresAnswerLost: a statement was carried out, and the connection ends
// before the answer. It is carried out once, and its error says that it may have
// charged.
func TestPostgresAnswerLost(t *testing.T) {
	at := rig.SharedPostgres(t).Database(t)
	direct := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, at))})
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	proxy := rig.NewProxy(t, u.Host)
	u.Host = proxy.Addr
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	for _, client := range []struct {
		name  string
		query func() throttlesql.Query
	}{
		{"pgx", func() throttlesql.Query { return clients.Pgx(pool(t, u.String())) }},
		{"database/sql", func() throttlesql.Query { return clients.DatabaseSQL(openDB(t, "pgx", u.String())) }},
		{"lib/pq", func() throttlesql.Query { return clients.LibPQ(openDB(t, "postgres", u.String())) }},
		{"lib/pq, binary", func() throttlesql.Query {
			return clients.LibPQ(openDB(t, "postgres", u.String()+"&binary_parameters=yes"))
		}},
	} {
		t.Run(client.name, func(t *testing.T) {
			s := &throttlesql.Store{Query: client.query()}
			for range 3 { // prepared
				if _, err := store.Take(t.Context(), s, client.name, ten, 1); err != nil {
					t.Fatal(err)
				}
			}
			for pieces := range int64(3) {
				proxy.Mute(pieces)
				before, after := remain(t, direct, client.name, ten), int64(0)
				d, err := store.Take(t.Context(), s, client.name, ten, 1)
				if after = remain(t, direct, client.name, ten); after < before-1 {
					t.Errorf("of %d there remain %d after one Take that was not answered: it was carried out twice", before, after)
				}
				var e *throttlesql.Error
				switch {
				case err == nil && d.OK && after == before-1:
				case !errors.As(err, &e) || after < before && !e.Charged:
					t.Errorf("Take without an answer: %+v, %v, and of %d there remain %d; want an Error that says what is true", d, err, before, after)
				}
				rig.Until(t, "it answers again", func() error {
					_, err := store.Take(t.Context(), s, client.name, ten, 0)
					return err
				})
			}
		})
	}
}

func remain(t *testing.T, s store.Store, key string, l limit.Limit) int64 {
	t.Helper()
	d, err := store.Take(t.Context(), s, key, l, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func openDB(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(4)
	t.Cleanup(func() { db.Close() })
	return db
}
