package integration

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

// pick returns one of all.
func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

// TestPostgresForeignRows: whatever stands in the row of a key, a Take has an
// answer, or an error that names the key and has charged nothing; other keys are
// not affected.
func TestPostgresForeignRows(t *testing.T) {
	t.Parallel()
	p := pool(t, rig.SharedPostgres(t).Database(t))
	s := created(t, &throttlesql.Store{Query: clients.Pgx(p)})
	rng := rand.New(rand.NewPCG(8, 14))
	failed := 0
	for i := range seldom(1500) {
		l := limit.Limit{Kind: limit.Kind(rng.IntN(7)), Count: pick[int64](rng, 7, 10, 11, math.MaxInt64), Period: pick(rng, time.Second, time.Minute)}
		if l.Kind == limit.CalendarWindow {
			l.Period = time.Minute
		}
		now := time.Now().UnixMicro()
		tt := pick(rng, math.MinInt64, -1, 0, now+1000, now+1_500_000, now+60_000_000, now+3600_000_000, math.MaxInt64)
		n := pick[int64](rng, math.MinInt64, -1, 0, 3, 9, 10, math.MaxInt64)
		written := pick(rng, l.String(), l.String(), "foo", "", "!", "unlimited", "0/s", "10/min\n5/s", "5/s", "5/s fixed-window", "5/s sliding-window", "5/s sliding-slots", "5/s sliding-log")
		a := pick[any](rng, nil, nil, "{}", "{1}", "{NULL,1,2}", "{0,1,2}", "{-1,1,2}", "{100000,NULL,2}", "{{1,2,3},{4,5,6}}", "{6000001,295000000,9223372036854775807,9223372036854775807}",
			"{1,9223372036854775807,3}", fmt.Sprintf("{1,%d,NULL,4,5}", now*2), fmt.Sprintf("{1,%d,-9223372036854775808,4,5}", now*2))
		if _, err := p.Exec(t.Context(), `INSERT INTO throttle VALUES ('bad', $1, $2, $3, $4, $5::text::bigint[])
			ON CONFLICT (key) DO UPDATE SET t = $1, n = $2, p = $3, l = $4, a = $5::text::bigint[]`, tt, n, pick(rng, math.MinInt64, -now, 0, 1, math.MaxInt64), written, a); err != nil {
			t.Fatal(err)
		}
		asks := []limit.Ask{{Key: "bad", Limit: l, N: pick[int64](rng, -3, 0, 1, 1, 3, math.MaxInt64), Debt: rng.IntN(4) == 0, Min: pick[int64](rng, 0, 0, 1)}}
		good := limit.Ask{Key: fmt.Sprint("good", i), Limit: ample, N: 1}
		if rng.IntN(3) == 0 {
			asks = append(asks, good)
		}
		_, err := s.Take(t.Context(), asks, make([]limit.Decision, len(asks)))
		var e *throttlesql.Error
		if err != nil && (!errors.As(err, &e) || e.Charged || !strings.Contains(err.Error(), `"bad"`) || !strings.Contains(err.Error(), "delete it") || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("%d: row (%d, %d, %q, %v): Take(%+v): error %q, want one line that names the key and what to do", i, tt, n, written, a, asks, err)
		}
		if err != nil {
			failed++
		}
		postgresTake(t, s, good)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	t.Logf("%d Takes failed", failed)
}

// TestPostgresForeignLog: a row of a log that says that more has left than was ever
// taken counts as one of which all has left, also where the limit changes.
func TestPostgresForeignLog(t *testing.T) {
	t.Parallel()
	server := rig.SharedPostgres(t)
	p := pool(t, server.Database(t))
	s := created(t, &throttlesql.Store{Query: clients.Pgx(p)})
	log := limit.Limit{Kind: limit.SlidingLog, Count: 10, Period: time.Hour}
	for _, l := range kindsToStep() {
		for _, n := range []int64{l.Max() + 1, 1} {
			key := fmt.Sprint(l.Kind, n)
			postgresTake(t, s, limit.Ask{Key: key, Limit: log, N: 5})
			if _, err := p.Exec(t.Context(), "UPDATE throttle SET n = $1 WHERE key = $2", int64(math.MaxInt64), []byte(key)); err != nil {
				t.Fatal(err)
			}
			if d := postgresTake(t, s, limit.Ask{Key: key, Limit: l, N: n}); d.OK != (n == 1) || d.Remaining > l.Max() {
				t.Errorf("%v: %d of %d: %+v, want OK %v", l.Kind, n, l.Max(), d, n == 1)
			}
		}
	}
}

// TestPostgresForeignFence: whatever stands in the fence, decisions go on.
func TestPostgresForeignFence(t *testing.T) {
	t.Parallel()
	server := rig.Postgres(t)
	for _, since := range []int64{math.MinInt64, math.MinInt64 / 2, -1, 0, math.MaxInt64} {
		s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, server.URL))})
		server.Exec(t, fmt.Sprintf("UPDATE throttle_fence SET since = '%d'", since))
		for _, l := range kindsToStep() {
			postgresTake(t, s, limit.Ask{Key: fmt.Sprint(since, l.Kind), Limit: l, N: 1})
		}
	}
}
