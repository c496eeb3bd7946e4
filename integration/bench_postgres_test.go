package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

const (
	benchKeys    = 10_000
	benchCallers = 16
	benchRounds  = 7
	benchRound   = 250 * time.Millisecond
)

// bareTable and bareUpdate are a token bucket as one would write it by hand:
// floating point, one limit a row, nothing but the number of tokens as answer.
const (
	bareTable = `CREATE UNLOGGED TABLE tb (k text PRIMARY KEY, tokens float8, burst float8, rate float8, ts timestamptz)
		WITH (fillfactor = 50)`
	bareRows   = `INSERT INTO tb SELECT 'key' || i, 1e9, 1e9, 1e6, now() FROM generate_series(0, $1::int - 1) AS i`
	bareUpdate = `UPDATE tb SET tokens = LEAST(burst, tokens + EXTRACT(EPOCH FROM (clock_timestamp() - ts)) * rate) - 1,
		ts = clock_timestamp()
		WHERE k = $1 AND LEAST(burst, tokens + EXTRACT(EPOCH FROM (clock_timestamp() - ts)) * rate) >= 1
		RETURNING tokens`
)

var ample = limit.Limit{Count: 1_000_000, Period: time.Second, Burst: 1_000_000_000}

// A race is one of several ways to decide, which take turns.
type race struct {
	name   string
	decide func(key string) error
	rates  []float64 // decisions a second, by round
}

// BenchmarkPostgres compares a decision with the bare UPDATE, through the same
// pool and, where there is a pgbench, through that. The ratios are the medians
// of rounds that took turns.
func BenchmarkPostgres(b *testing.B) {
	server := rig.Postgres(b, "fsync=on", "full_page_writes=on", "shared_buffers=256MB", "max_connections=100")
	config, err := pgxpool.ParseConfig(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = benchCallers
	p, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	store := created(b, &throttlesql.Store{Query: clients.Pgx(p)})
	if _, err := p.Exec(b.Context(), bareTable); err != nil {
		b.Fatal(err)
	}
	if _, err := p.Exec(b.Context(), bareRows, benchKeys); err != nil {
		b.Fatal(err)
	}
	bare := &race{name: "bare", decide: func(key string) error {
		var tokens float64
		return p.QueryRow(context.Background(), bareUpdate, key).Scan(&tokens)
	}}
	ours := &race{name: "ours", decide: func(key string) error { return takes(store, true, limit.Ask{Key: key, Limit: ample, N: 1}) }}
	pair := &race{name: "pair", decide: func(key string) error {
		return takes(store, true, limit.Ask{Key: key, Limit: ample, N: 1}, limit.Ask{Key: key + " day", Limit: ample, N: 1})
	}}
	never := limit.Limit{Count: 1, Period: 24 * time.Hour}
	refused := &race{name: "refused", decide: func(key string) error { return takes(store, false, limit.Ask{Key: key + " over", Limit: never, N: 1}) }}
	sliding := limit.Limit{Kind: limit.SlidingWindow, Count: 1_000_000_000, Period: time.Hour}
	slide := &race{name: "sliding", decide: func(key string) error {
		return takes(store, true, limit.Ask{Key: key + " slide", Limit: sliding, N: 1})
	}}

	for i := range benchKeys { // no race is about new rows
		key := "key" + strconv.Itoa(i)
		for _, decide := range []func(string) error{ours.decide, pair.decide, slide.decide} {
			if err := decide(key); err != nil {
				b.Fatal(err)
			}
		}
		if err := takes(store, true, limit.Ask{Key: key + " over", Limit: never, N: 1}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		b.Run("spread keys", func(b *testing.B) { turns(b, benchKeys, benchCallers, bare, ours, pair, refused, slide) })
		b.Run("one key", func(b *testing.B) { turns(b, 1, benchCallers, bare, ours, pair, refused, slide) })
		b.Run("pgbench", func(b *testing.B) { pgbench(b, server, store, p) })
	}
}

// takes asks, and wants to pass or not.
func takes(s *throttlesql.Store, want bool, a ...limit.Ask) error {
	var d [2]limit.Decision
	ok, err := s.Take(context.Background(), a, d[:len(a)])
	if err == nil && ok != want {
		err = fmt.Errorf("Take(%+v) = %v, want %v", a, ok, want)
	}
	return err
}

// turns lets all take turns, and reports how each compares to the first.
func turns(b *testing.B, keys, callers int, all ...*race) {
	for _, r := range all {
		r.rates = nil
		r.run(b, keys, callers) // fills caches
	}
	for range benchRounds {
		for _, r := range all {
			r.rates = append(r.rates, r.run(b, keys, callers))
		}
	}
	report(b, all)
}

// run is one round: decisions a second of callers that never rest.
func (r *race) run(b *testing.B, keys, callers int) float64 {
	var n atomic.Int64
	var wait sync.WaitGroup
	begin := time.Now()
	for range callers {
		wait.Go(func() {
			for time.Since(begin) < benchRound {
				if err := r.decide("key" + strconv.Itoa(rand.IntN(keys))); err != nil {
					b.Errorf("%s: %v", r.name, err)
					return
				}
				n.Add(1)
			}
		})
	}
	wait.Wait()
	return float64(n.Load()) / time.Since(begin).Seconds()
}

// report gives the median of the rates, and of the ratios to the first, and how
// many allocations a decision makes, those of the client included.
func report(b *testing.B, all []*race) {
	b.ReportMetric(0, "ns/op")
	for i, r := range all {
		b.ReportMetric(median(r.rates), r.name+"/s")
		if r.decide != nil {
			b.ReportMetric(allocations(b, r), r.name+"-allocs")
		}
		if i == 0 {
			continue
		}
		ratios := make([]float64, len(r.rates))
		for j := range ratios {
			ratios[j] = r.rates[j] / all[0].rates[j]
		}
		b.ReportMetric(median(ratios), r.name+"/"+all[0].name)
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// pgbench compares the statements alone, without a client in Go.
func pgbench(b *testing.B, server *rig.PostgresServer, store *throttlesql.Store, p *pgxpool.Pool) {
	places, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	program := slices.Concat(places, []string{"pgbench"})[0]
	if _, err := exec.LookPath(program); err != nil {
		b.Skip("NO ENGINE, this is NOT measured: pgbench is not installed; on Debian: apt-get install postgresql")
	}
	begin := time.Now()
	texts := map[string]string{"bare": strings.ReplaceAll(bareUpdate, "$1", "'key' || :i"), "ours": statement(b, store, p)}
	all := []*race{{name: "bare"}, {name: "ours"}}
	for range benchRounds {
		for _, r := range all {
			r.rates = append(r.rates, transactions(b, program, server, texts[r.name]))
		}
	}
	report(b, all)
	for table, written := range map[string]string{"tb": "ts > $1", "throttle": "abs(p) > extract(epoch FROM $1::timestamptz) * 1000000"} {
		var n int64
		if err := p.QueryRow(b.Context(), "SELECT count(*) FROM "+table+" WHERE "+written, begin).Scan(&n); err != nil || n < benchKeys*9/10 {
			b.Errorf("pgbench has written %d rows of %s, %v, want nearly all of %d", n, table, err, benchKeys)
		}
	}
}

// statement is what a decision sends, with the key left to pgbench.
func statement(b *testing.B, store *throttlesql.Store, p *pgxpool.Pool) string {
	var text string
	spy := &throttlesql.Store{Query: func(ctx context.Context, sql string, args ...any) throttlesql.Row {
		if text == "" {
			text = sql
			for i := len(args) - 1; i > 0; i-- {
				literal := fmt.Sprintf("'%v'", args[i])
				text = strings.ReplaceAll(text, "$"+strconv.Itoa(i+1)+"::", literal+"::")
			}
			text = strings.ReplaceAll(text, "$1::", "('key' || :i)::")
		}
		return clients.Pgx(p)(ctx, sql, args...)
	}}
	if err := takes(spy, true, limit.Ask{Key: "key0", Limit: ample, N: 1}); err != nil {
		b.Fatal(err)
	}
	return text
}

var (
	tps   = regexp.MustCompile(`tps = ([0-9.]+)`)
	since = regexp.MustCompile(`throttle\.since_[0-9a-f]+`)
)

func transactions(b *testing.B, program string, server *rig.PostgresServer, text string) float64 {
	script := filepath.Join(b.TempDir(), "script.sql")
	text = strings.Join(strings.Fields(text), " ")
	text = fmt.Sprintf("\\set i random(0, %d)\n%s;\n", benchKeys-1, text)
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	host, port, _ := strings.Cut(server.Addr, ":")
	cmd := exec.CommandContext(b.Context(), program, "-h", host, "-p", port, "-U", "postgres", "-n", "-M", "prepared",
		"-c", strconv.Itoa(benchCallers), "-T", "1", "-f", script, "postgres")
	if known := since.FindString(text); known != "" { // as look.sql tells a session
		cmd.Env = append(os.Environ(), "PGOPTIONS=-c "+known+"=0")
	}
	out, err := cmd.CombinedOutput()
	found := tps.FindSubmatch(out)
	if err != nil || found == nil {
		b.Fatalf("pgbench: %v:\n%s", err, out)
	}
	rate, _ := strconv.ParseFloat(string(found[1]), 64)
	return rate
}
