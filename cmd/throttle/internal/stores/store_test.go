package stores

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestRedisURLHidesPassword: no error and no name of a store shows a part of a
// password, not even of one that is not escaped as it must be.
func TestRedisURLHidesPassword(t *testing.T) {
	for _, text := range []string{
		"redis://u:pAss/wOrd@host", "redis://u:pAss?wOrd@host", "redis://u:pAss?slots=wOrd@host/1", "redis://u:12/wOrd@host/",
		"redis://u:pAss@wOrd@host/x", "redis+sentinel://:pAss/wOrd@host", "redis://u:pAss%zwOrd@host", "redis://host?%zwOrd",
		"redis://host/?wOrd=1", "redis://host/wOrd", "redis://host/?slots=wOrd", "redis://u:pAss/wOrd", "redises://u:pAss/wOrd@host",
		"redis://u:pAss", "redis://:wOrd", "redis://u:pAss,h2:1", "redis://h/?sentinel_password=wOrd", "redis+sentinel://h/m?sentinel_user=wOrd", "redis+sentinel://u:pAss,wOrd/master", "redis://u:pAss:wOrd",
	} {
		_, err := Open(t.Context(), text, Options{Command: "serve", Timeout: time.Second})
		if err == nil || strings.Contains(err.Error(), "wOrd") || strings.Contains(err.Error(), "pAss") || strings.Contains(err.Error(), "12/") {
			t.Errorf("Open(%q): %v, want an error without the password", text, err)
		}
	}
	for text, want := range map[string]string{"redis://u:p%2Fs@host/2": "redis://host:6379/2", "redis://u:p@s@host/?prefix=a%40b": "redis://host:6379", "redis+sentinel://h/m?sentinel_password=wOrd": "redis+sentinel://h:26379/m"} {
		s, err := Open(t.Context(), text, Options{Command: "serve", Timeout: time.Second})
		if err != nil {
			t.Errorf("Open(%q): %v", text, err)
			continue
		}
		if s.Close(); s.Name != want {
			t.Errorf("Open(%q) is named %q, want %q", text, s.Name, want)
		}
	}
}

// TestRedisURLSlots: the keys of rules with several limits are asked for together,
// so a Cluster has one slot too, unless the URL says otherwise.
func TestRedisURLSlots(t *testing.T) {
	for text, want := range map[string]int{
		"redis://host": 0, "redis://h1,h2/?cluster=true": 0, "redis://h1,h2/?cluster=true&slots=1024": 1024,
	} {
		s, err := Open(t.Context(), text, Options{Command: "serve", Timeout: time.Second})
		if err != nil {
			t.Fatalf("Open(%q): %v", text, err)
		}
		defer s.Close()
		if got := s.Store.(*throttleredis.Store).Slots; got != want {
			t.Errorf("Open(%q): Slots = %d, want %d", text, got, want)
		}
	}
}

// TestRedisURLFence: what the URL says of a replaced primary and of lost states is that of the Store.
func TestRedisURLFence(t *testing.T) {
	s, err := Open(t.Context(), "redis+sentinel://h1,h2/m?overlap=3s&strict=true", Options{Command: "serve", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Store.(*throttleredis.Store); got.Overlap != 3*time.Second || !got.Strict {
		t.Errorf("Overlap = %v and Strict = %v, want 3s and true", got.Overlap, got.Strict)
	}
}

// TestURLOfBadNames: what no decision would get past is refused when the store is opened.
func TestURLOfBadNames(t *testing.T) {
	for text, want := range map[string]string{
		"redis://::1:6379":                                            "serve: -store redis://: HOST: write an address of IPv6 in [ ], as [::1] or [::1]:PORT",
		"redis://[::1":                                                "serve: -store redis://: HOST: write an address of IPv6 in [ ], ",
		"redis://h,2001:db8::1/":                                      "serve: -store redis://: HOST: write an address of IPv6 in [ ], ",
		"redis://host/?slots=1&slots=2":                               "serve: -store redis://: a name behind ? stands there twice; write it once",
		"postgres://u@::1:5432/db":                                    "serve: -store postgres://: HOST: write an address of IPv6 in [ ], ",
		"redis://host/?sentinel_password=a":                           "serve: -store redis://: sentinel_user and sentinel_password are of sentinels; write redis+sentinel://HOST,HOST/MASTER",
		"redis+sentinel://host/m?sentinel_user=a":                     "serve: -store redis+sentinel://: sentinel_user: has no sentinel_password beside it",
		"redis://host/?overlap=3":                                     "serve: -store redis://: overlap: must be a duration, such as 3s",
		"redis://host/?strict=yes":                                    "serve: -store redis://: strict: must be true or false",
		"redis://host/?overlap=-1s":                                   "serve: -store redis://: overlap: must be from 0s to 1h0m0s",
		"redis://host/?overlap=2h":                                    "serve: -store redis://: overlap: must be from 0s to 1h0m0s",
		"redis://host/?prefix={limits}:":                              "serve: -store redis://: prefix: has braces, which would decide on the slot; write it without",
		"postgres://u@host/db?table=a.b.c":                            "serve: -store postgres://: table: must be NAME or SCHEMA.NAME, each of 1 to 40 bytes and without quotes, '$' and '\\'",
		"postgres://u@host/db?table=a%22b":                            "serve: -store postgres://: table: must be NAME or SCHEMA.NAME, ",
		"postgres://u@host/db?table=" + strings.Repeat("a", 41):       "serve: -store postgres://: table: must be NAME or SCHEMA.NAME, ",
		"postgres://u@host/db?sslmode=disable&table=limits.by%20day.": "serve: -store postgres://: table: must be NAME or SCHEMA.NAME, ",
	} {
		_, err := Open(t.Context(), text, Options{Command: "serve", Timeout: time.Second})
		if wrong := usage.Error(""); !errors.As(err, &wrong) || !strings.HasPrefix(string(wrong), want) {
			t.Errorf("Open(%q): %v, want wrong usage: %s", text, err, want)
		}
	}
}

// TestPostgresURLHidesPassword: the same of PostgreSQL, whose client would take a
// part of such a password for a host and show it.
func TestPostgresURLHidesPassword(t *testing.T) {
	for _, text := range []string{
		"postgres://u:pAss@wOrd@host/db", "postgres://u:pAss/wOrd@host/db", "postgres://u:pAss?wOrd@host/db", "postgres://u:pAss?table=wOrd@host/db",
		"postgres://u:pAss%zwOrd@host/db", "postgres://u:pAss%wOrd@h1,h2:x/db", "postgres://u:12/wOrd@h1,h2/db", "postgres://u:pAss/wOrd",
		"postgres://u:pAss?x=wOrd", "postgres://u:pAss wOrd@host/db", "postgres://u:wOrd@host:port/db", "postgres://u:wOrd@h1,h2:99999/db",
		"postgres://u:wOrd@[::1/db", "postgres://u:wOrd@[::1]:x/db", "postgres://u:wOrd@host/db?sslmode=bad", "postgres://host/db?password=wOrd%zz",
		"postgres://host/db?password=wOrd&sslmode=bad", "postgres://host/db?pass%wOrd=1", "postgres://u:wOrd@host/db?connect_timeout=x",
		"postgres:host=a password=wOrd port=x", "postgres:wOrd", "postgresql://u:pAss`: wOrd@host/db?sslmode=bad", "postgresql://u:pAss;wOrd@h/?a;b",
		"postgres://u:wOrd@host/db?sslrootcert=/nowhere", "postgres://u:pAss:wOrd", "postgres://u:pAss@wOrd@h1:1,h2:2/db",
	} {
		_, err := Open(t.Context(), text, Options{Command: "serve", Timeout: time.Second})
		if err == nil || strings.Contains(err.Error(), "wOrd") || strings.Contains(err.Error(), "%wO") || strings.Contains(err.Error(), "pAss") || strings.Contains(err.Error(), "12/") {
			t.Errorf("Open(%q): %v, want an error without the password", text, err)
		}
	}
	for text, want := range map[string]string{
		"postgres://u:pAss#wOrd@host/db": "postgres://host:5432/db", "postgres://u:pAss:wOrd@host:5/db?table=a.b": "postgres://host:5/db",
		"postgres://u:p%40%2F%3FwOrd@h1:1,h2:2/db": "postgres://h1:1/db", "postgres://u:wOrd@[::1]:7/db": "postgres://[::1]:7/db",
		"postgres://u:wOrd@[::1]/db?password=pAss": "postgres://[::1]:5432/db",
	} {
		s, err := Open(t.Context(), text, Options{Command: "serve", Timeout: time.Second})
		if err != nil {
			t.Errorf("Open(%q): %v", text, err)
			continue
		}
		if s.Close(); s.Name != want {
			t.Errorf("Open(%q) is named %q, want %q", text, s.Name, want)
		}
	}
}

// refused is a row of a statement that PostgreSQL refused, with this SQLSTATE.
type refused string

func (r refused) Scan(...any) error { return r }
func (r refused) Error() string     { return "SQLSTATE " + string(r) }
func (r refused) SQLState() string  { return string(r) }

// TestPostgresMissing: of tables that are missing an error says how the command makes
// them, not only how the library does; other errors are those of PostgreSQL.
func TestPostgresMissing(t *testing.T) {
	for _, tt := range []struct{ command, state, want string }{
		{"take", "42P01", "SQLSTATE 42P01, which 'throttle take -create' makes"},
		{"gateway", "42883", "SQLSTATE 42883, which 'throttle take -create' makes"},
		{"serve", "42P01", "SQLSTATE 42P01, which create: true in the section store makes"},
		{"take", "3F000", "SQLSTATE 3F000"}, // a schema, which nobody makes but its owner
		{"serve", "42501", "SQLSTATE 42501"},
	} {
		err := advised{refused(tt.state), tt.command}.Scan()
		if of := refused(""); err.Error() != tt.want || !errors.As(err, &of) || string(of) != tt.state {
			t.Errorf("%s, state %s: %v, want %s", tt.command, tt.state, err, tt.want)
		}
	}
}

// TestPostgresHangs: a database that takes a connection and says nothing holds up no
// start for longer than the timeout.
func TestPostgresHangs(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = Open(ctx, "postgres://u@"+silent.Addr().String()+"/db", Options{Command: "serve", Timeout: 50 * time.Millisecond, Create: true})
	if failed := exit.Failure(""); !errors.As(err, &failed) || ctx.Err() != nil {
		t.Errorf("Open: %v, want a failure before the test gives up", err)
	}
}

// TestPostgresCloses: a server that froze with a statement does not hold up the end.
func TestPostgresCloses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			server := pgproto3.NewBackend(conn, conn)
			if _, err := server.ReceiveStartupMessage(); err == nil {
				server.Send(&pgproto3.AuthenticationOk{})
				server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				_ = server.Flush()
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	s, err := Open(t.Context(), "postgres://u@"+l.Addr().String()+"/db?sslmode=disable", Options{
		Command: "serve", Timeout: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err = store.Take(ctx, s.Store, "k", limit.Limit{Count: 1, Period: time.Second}, 1); err == nil {
		t.Error("a frozen server has decided")
	}
	began := time.Now()
	if s.Close(); time.Since(began) > 10*time.Second {
		t.Errorf("closed after %v, want about 50 ms", time.Since(began))
	}
}

// TestPostgresFrozen: servers that take connections and then answer nothing, as they are frozen
// or were replaced, do not hold the places of the pool: neither before the first answer nor
// with a statement.
func TestPostgresFrozen(t *testing.T) {
	for _, welcomes := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		begun, others := make(chan net.Conn, 100), make(chan net.Conn, 100)
		go func() {
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				server := pgproto3.NewBackend(conn, conn)
				begins, err := server.ReceiveStartupMessage()
				if _, cancels := begins.(*pgproto3.CancelRequest); err != nil || cancels {
					others <- conn
					continue
				}
				begun <- conn
				if welcomes {
					server.Send(&pgproto3.AuthenticationOk{})
					server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
					_ = server.Flush()
				}
			}
		}()
		s, err := Open(t.Context(), "postgres://u@"+l.Addr().String()+"/db?pool_max_conns=1&sslmode=disable", Options{
			Command: "serve", Timeout: 25 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for end := time.Now().Add(5 * time.Second); len(begun) < 2; {
			if time.Now().After(end) {
				t.Fatalf("welcomed %v: %d connections were made in 5 s, want another after 100 or 200 ms", welcomes, len(begun))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := store.Take(ctx, s.Store, "k", limit.Limit{Count: 1, Period: time.Second}, 1)
			if cancel(); err == nil {
				t.Fatal("a Take was decided")
			}
		}
	}
}
