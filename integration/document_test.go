package integration

import (
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
	"github.com/throttle-go/throttle/throttletest"
)

var _ = []rules.Shared{(*throttleredis.Document)(nil), (*throttlesql.Document)(nil), (*rules.File)(nil)}

func TestDocumentRedis(t *testing.T) {
	for name, do := range redisClients(t, rig.SharedRedis(t).Addr) {
		t.Run(name, func(t *testing.T) {
			d := func() *throttleredis.Document { return &throttleredis.Document{Do: do, Name: "document:" + name} }
			throttletest.TestDocument(t, d(), d())
		})
	}
}

// TestDocumentRedisUser: the user of docs/redis.md may do it, on each engine.
func TestDocumentRedisUser(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *rig.Node{"Redis": rig.Redis, "Valkey": rig.Valkey} {
		t.Run(name, func(t *testing.T) {
			node := start(t)
			redisUser(t, node, "throttle", redisRules)
			d := &throttleredis.Document{Do: redisUsers(t, node.Addr, "throttle")["go-redis"]}
			throttletest.TestDocument(t, d, d)
			if n := node.Must(t, "EXISTS", "throttle:overlay"); n != "1" {
				t.Errorf("EXISTS throttle:overlay = %v, want 1", n)
			}
			node.Must(t, "SET", "throttle:overlay", "") // as by hand
			version, data, err := d.Load(t.Context())
			if err != nil || version != "" || len(data) > 0 {
				t.Errorf("Load of an empty key = %q, %q, %v, want none", version, data, err)
			}
			if _, ok, err := d.Swap(t.Context(), version, []byte("x")); !ok || err != nil {
				t.Errorf("Swap of an empty key = %t, %v, want ok", ok, err)
			}
			node.Must(t, "DEL", "throttle:overlay")
			node.Must(t, "LPUSH", "throttle:overlay", "x")
			if _, _, err := d.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "throttle:overlay") {
				t.Errorf("Load of a key of another type: %v, want an error with its name", err)
			}
		})
	}
}

func TestDocumentPostgres(t *testing.T) {
	url := rig.SharedPostgres(t).Database(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	p := pool(t, url)
	for name, query := range map[string]throttlesql.Query{"pgx": clients.Pgx(p), "database/sql": clients.DatabaseSQL(db)} {
		t.Run(name, func(t *testing.T) {
			d := &throttlesql.Document{Query: query, Table: "public.My documents", Name: name}
			missing := &throttlesql.Document{Query: query, Table: "nowhere"}
			if _, _, err := missing.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "call Create") {
				t.Errorf("Load without a table: %v, want it to say what to call", err)
			}
			for _, bad := range []*throttlesql.Document{{Query: query, Table: `a"b`}, {}} {
				if err := bad.Create(t.Context()); err == nil {
					t.Errorf("Create of %+v has no error", bad)
				}
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := d.Create(t.Context()); err != nil {
						t.Errorf("Create: %v", err)
					}
				})
			}
			all.Wait()
			throttletest.TestDocument(t, d, &throttlesql.Document{Query: query, Table: "public.My documents", Name: name})
		})
	}
}

// TestDocumentStacks: a raise that one instance writes to Redis counts in the other,
// and is written again after Redis has lost everything.
func TestDocumentStacks(t *testing.T) {
	node := rig.Redis(t)
	stack := func() *rules.Stack {
		s := &rules.Stack{
			Sources: []*rules.Source{{Fetch: rules.FromFile("testdata/rules.json")}},
			Shared:  &throttleredis.Document{Do: goRedis(t, node.Addr)},
		}
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := stack(), stack()
	raise := rules.Override{Key: []string{"acme"}, Limits: []rules.Limit{{Count: 9, Period: time.Hour}}}
	if err := a.Edit(t.Context(), rules.Note{Why: "launch", By: "jane"}, func(o *rules.Overlay) error {
		o.PutOverride("per-client", raise)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"written", "lost"} {
		if what == "lost" {
			node.Must(t, "FLUSHALL")
		}
		if err := b.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		answer, err := b.Live.Load().Decide(t.Context(), &throttleredis.Store{Do: goRedis(t, node.Addr)}, rules.Request{Client: "acme"})
		if err != nil || limit.Limit(raise.Limits[0]) != answer.Limit {
			t.Errorf("%s: decided by %v, %v; want %v", what, answer.Limit, err, raise.Limits[0])
		}
		if version, data, err := a.Shared.Load(t.Context()); err != nil || version == "" {
			t.Errorf("%s: Redis has %q, %v; want the Overlay", what, data, err)
		}
	}
}
