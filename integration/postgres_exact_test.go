package integration

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
	"github.com/throttle-go/throttle/throttletest"
)

// A postgresClock is a session that shows the time of a test: what is run is
// the real thing but for where it asks for the time. Nothing is swept, as a
// clock that goes back would miss it.
type postgresClock struct {
	conn    *pgx.Conn
	patched map[string]string
}

func newPostgresClock(t *testing.T, url string) *postgresClock {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return &postgresClock{conn: conn, patched: map[string]string{}}
}

// Query is for one caller at a time.
func (c *postgresClock) Query(ctx context.Context, sql string, args ...any) throttlesql.Row {
	const asks, told = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint", "current_setting('test.now')::bigint"
	if strings.Contains(sql, `_sweep2"($1`) {
		return swept{}
	}
	if c.patched[sql] == "" {
		c.patched[sql] = strings.ReplaceAll(sql, asks, told)
	}
	if strings.Contains(c.patched[sql], "clock_timestamp") {
		return swept{errors.New("asks for the time elsewhere")}
	}
	now, ok := ctx.Value(fakeNow{}).(time.Time)
	if !ok {
		return c.conn.QueryRow(ctx, c.patched[sql], args...)
	}
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('test.now', $1, false)", fmt.Sprint(now.UnixMicro()))
	b.Queue(c.patched[sql], args...)
	return batchRow{c.conn.SendBatch(ctx, b)}
}

type swept struct{ err error }

func (s swept) Scan(...any) error { return s.err }

// batchRow is the row of the second statement of a batch.
type batchRow struct{ pgx.BatchResults }

func (r batchRow) Scan(dest ...any) error {
	defer r.Close()
	if _, err := r.Exec(); err != nil {
		return err
	}
	return r.QueryRow().Scan(dest...)
}

func TestPostgresClockJumps(t *testing.T) {
	c := newPostgresClock(t, rig.SharedPostgres(t).Database(t))
	now := time.Now().Truncate(time.Microsecond)
	s := created(t, &throttlesql.Store{Query: func(ctx context.Context, sql string, args ...any) throttlesql.Row {
		now = now.Add(time.Microsecond)
		return c.Query(redisAt(ctx, now), sql, args...)
	}})
	throttletest.TestStoreClock(t, s, func(by time.Duration) { now = now.Add(by) })
}

// TestPostgresExact: what SQL makes of a state is what package limit makes of
// it, for limits of every size, by a clock that goes forward and back, and
// through changes of limits.
func TestPostgresExact(t *testing.T) {
	t.Parallel()
	const workers = 4
	steps := seldom(13_000)
	url := rig.SharedPostgres(t).Database(t)
	var all sync.WaitGroup
	for w := range workers {
		c := newPostgresClock(t, url)
		s := created(t, &throttlesql.Store{Query: c.Query, Table: fmt.Sprint("exact", w)})
		all.Go(func() { postgresWalk(t, s, rand.New(rand.NewPCG(5, uint64(w))), steps) })
	}
	all.Wait()
}

// postgresWalk puts random questions, and compares.
func postgresWalk(t *testing.T, s *throttlesql.Store, rng *rand.Rand, steps int) {
	now := time.Now()
	accounts := make([]*redisAccount, 40)
	limits := make([]limit.Limit, len(accounts))
	for i := range accounts {
		limits[i] = redisLimit(rng, kindOf(i))
		accounts[i] = &redisAccount{limit: limits[i], both: true}
	}
	for range steps {
		var a []limit.Ask
		var k []*redisAccount
		for _, i := range rng.Perm(len(accounts))[:max(1, rng.IntN(6)-2)] {
			if rng.IntN(50) == 0 {
				limits[i] = anotherLimit(rng, i, limits[i])
			}
			a, k = append(a, redisAsk(rng, fmt.Sprint("k", i), limits[i])), append(k, accounts[i])
		}
		now = redisClockOn(rng, now, a[0].Limit)
		got, want := make([]limit.Decision, len(a)), make([]limit.Decision, len(a))
		ok, err := s.Take(redisAt(context.Background(), now), a, got)
		if err != nil {
			t.Errorf("Take(%+v): error %v", a, err)
			return
		}
		before := fmt.Sprintf("%+v", redisStates(k))
		wantOK := redisTakeAll(k, now, a, want)
		for i := range got {
			if !got[i].At.Equal(now) {
				t.Errorf("Take(%+v): At = %v, want %v", a, got[i].At, now)
				return
			}
			got[i].At = want[i].At
		}
		if ok != wantOK || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("Take(%+v)\n at   %v, of %s\n got  %v %+v\n want %v %+v", a, now.UnixMicro(), before, ok, got, wantOK, want)
			return
		}
	}
}

// kindOf is the Kind that a key begins with: the last are kept apart.
func kindOf(i int) limit.Kind {
	switch {
	case i >= 34:
		return limit.SlidingSlots
	case i >= 28:
		return limit.SlidingLog
	}
	return stateKinds[i%len(stateKinds)]
}

// anotherLimit is one that key i may be asked for next.
func anotherLimit(rng *rand.Rand, i int, l limit.Limit) limit.Limit {
	switch {
	case i >= 28: // under another Period it may have forgotten what left the old one
		l.Count = redisSize(rng, 1<<50)
		return l
	case i < 28 && rng.IntN(2) == 0:
		return redisLimit(rng, stateKinds[rng.IntN(len(stateKinds))])
	}
	return redisLimit(rng, l.Kind)
}

// TestPostgresFence: after a loss every key is as if it had been used up when
// the loss was noticed, under every Kind, and refills as package limit says; a
// window comes free evenly until it ends.
func TestPostgresFence(t *testing.T) {
	t.Parallel()
	url := rig.SharedPostgres(t).Database(t)
	rng := rand.New(rand.NewPCG(6, 7))
	for logged, table := range map[bool]string{false: "fenced", true: "fenced too"} {
		created(t, &throttlesql.Store{Query: newPostgresClock(t, url).Query, Table: table, Logged: logged})
		for i := range 28 {
			c := newPostgresClock(t, url) // sessions end with a crash
			s := &throttlesql.Store{Query: c.Query, Table: table}
			if _, err := c.conn.Exec(t.Context(), fmt.Sprintf(`TRUNCATE %q`, table+"_fence")); err != nil {
				t.Fatal(err)
			}
			kind := limit.Kind(i % 7)
			l := limit.Limit{Kind: kind, Count: 1 + rng.Int64N(20), Period: time.Duration(1 + rng.Int64N(int64(time.Hour)))}
			if kind == limit.CalendarWindow {
				l.Period, l.Zone = time.Hour, newYork
			}
			lost := time.Now().Add(time.Duration(rng.Int64N(int64(24 * time.Hour)))).Truncate(time.Microsecond)
			refills(t, s, rng, fmt.Sprint("lost ", i), l, lost)
		}
	}
}

// refills asks from the loss on, which the first question notices.
func refills(t *testing.T, s *throttlesql.Store, rng *rand.Rand, key string, l limit.Limit, lost time.Time) {
	t.Helper()
	other := limit.Ask{Key: "notices " + key, Limit: limit.Limit{Count: 5, Period: time.Second}}
	for _, n := range []int64{0, 1} { // one by look.sql, which cannot tell, and one by take.sql
		other.N = n
		if ok, err := s.Take(redisAt(t.Context(), lost), []limit.Ask{other}, make([]limit.Decision, 1)); err != nil || ok != (n == 0) {
			t.Fatalf("Take(%+v) at the loss = %v, %v", other, ok, err)
		}
	}
	account := &redisAccount{limit: l, both: true}
	account.take(lost, limit.Ask{Limit: l, N: l.Max()})
	var taken int64
	now, end := lost, account.state.T
	isWindow := l.Kind == limit.FixedWindow || l.Kind == limit.FirstHitWindow || l.Kind == limit.CalendarWindow
	for range 30 {
		a := []limit.Ask{{Key: key, Limit: l, N: rng.Int64N(3)}}
		if rng.IntN(5) == 0 {
			a[0].Min, a[0].N = 1, 5
		}
		now = now.Add(time.Duration(rng.Int64N(int64(l.Period)/6 + 1))).Truncate(time.Microsecond)
		inWindow := isWindow && end > now.UnixMicro()
		if inWindow {
			length := (l.Period + 999).Truncate(time.Microsecond)
			free := new(big.Int).Mul(big.NewInt(l.Count), big.NewInt(int64(now.Sub(lost))))
			account.state = limit.State{T: end, N: l.Count - free.Div(free, big.NewInt(int64(length))).Int64() + taken}
		}
		got, want := make([]limit.Decision, 1), account.take(now, a[0])
		if inWindow {
			taken += want.N
			account.state = limit.State{}
		}
		_, err := s.Take(redisAt(t.Context(), now), a, got)
		want.At = got[0].At
		if err != nil || got[0] != want {
			t.Errorf("%v after a loss: Take(%+v)\n got  %+v, %v\n want %+v", now.Sub(lost), a, got[0], err, want)
			return
		}
	}
}

// TestPostgresSlides: how much of the window before counts is rounded as package
// limit rounds it, at every edge.
func TestPostgresSlides(t *testing.T) {
	t.Parallel()
	s := created(t, &throttlesql.Store{Query: newPostgresClock(t, rig.SharedPostgres(t).Database(t)).Query})
	l := limit.Limit{Kind: limit.SlidingWindow, Count: 5, Period: 10 * time.Microsecond}
	begin := time.Now().Truncate(time.Second)
	for i := range 5 * 5 * 5 * 20 {
		first, second, third, after := int64(i%5), int64(i/5%5), 1+int64(i/25%5), time.Duration(i/125)
		begin = begin.Add(time.Millisecond)
		account := &redisAccount{limit: l, both: true}
		for _, step := range []struct {
			n     int64
			after time.Duration
		}{{first, 0}, {second, 10 + after/2}, {third, 10 + after}} {
			now := begin.Add(step.after * time.Microsecond)
			a, got := []limit.Ask{{Key: fmt.Sprint("k", i%7), Limit: l, N: step.n}}, make([]limit.Decision, 1)
			_, err := s.Take(redisAt(t.Context(), now), a, got)
			want := account.take(now, a[0])
			if want.At = got[0].At; err != nil || got[0] != want {
				t.Fatalf("%d, %d and %d after %dµs: Take(%+v)\n got  %+v, %v\n want %+v", first, second, third, after, a, got[0], err, want)
			}
		}
	}
}
