package throttlesql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/throttle-go/throttle/limit"
)

// A row is what a Query of a test answers.
type row func(dest ...any) error

func (r row) Scan(dest ...any) error { return r(dest...) }

// fails is a Query that only fails.
func fails(err error) Query {
	return func(context.Context, string, ...any) Row { return row(func(...any) error { return err }) }
}

type refused string

func (refused) Error() string      { return "the server says no" }
func (r refused) SQLState() string { return string(r) }

// safely is an error of pgx, that says whether anything was sent.
type safely bool

func (safely) Error() string       { return "timeout" }
func (s safely) SafeToRetry() bool { return bool(s) }

func TestErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, c := range []struct {
		n       int64
		err     error
		charged bool
		words   string
	}{
		{1, broken, true, "not known whether it was charged"},
		{1, refused("55P03"), false, "nothing was charged: the server says no"},
		{1, refused("42P01"), false, "call Create"},
		{1, refused("42883"), false, "call Create"},
		{1, refused("3F000"), false, "CREATE SCHEMA"},
		{1, refused("57P01"), true, "not known"},
		{1, refused("57P03"), false, "nothing was charged"},
		{1, refused("08006"), true, "not known"},
		{1, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false, "nothing was charged"},
		{1, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, true, "not known"},
		{1, errors.New("pq: SSL is not enabled on the server"), false, "nothing was charged"},
		{1, errors.New(`pq: wrong value for "sslmode": "bad" is not supported`), false, "nothing was charged"},
		{1, errors.New("pq: unexpected DataRow"), true, "not known"},
		{1, safely(true), false, "nothing was charged"},
		{1, safely(false), true, "not known"},
		{0, broken, false, "nothing was charged"},
		{-1, broken, true, "not known"},
	} {
		s := &Store{Query: fails(fmt.Errorf("wrapped: %w", c.err))}
		a := []limit.Ask{{Key: "k", Limit: limit.Limit{Count: 5, Period: time.Second}, N: c.n}}
		_, err := s.Take(t.Context(), a, make([]limit.Decision, 1))
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, c.err) || e.Charged != c.charged || !strings.Contains(strings.ReplaceAll(err.Error(), "wrapped: ", ""), c.words) {
			t.Errorf("N %d, %v: error %q, want Charged %v and %q", c.n, c.err, err, c.charged, c.words)
		}
	}
}

// TestErrorsInOneLine: what a client writes in several lines, as pgx does for the
// addresses of a host, is one, whatever was asked.
func TestErrorsInOneLine(t *testing.T) {
	lines := errors.New("failed to connect:\n\tone: refused\n\ttwo: refused")
	s, d := &Store{Query: fails(lines)}, &Document{Query: fails(lines)}
	ask := []limit.Ask{{Key: "k", Limit: limit.Limit{Count: 5, Period: time.Second}, N: 1}}
	for name, call := range map[string]func() error{
		"Take":   func() error { _, err := s.Take(t.Context(), ask, make([]limit.Decision, 1)); return err },
		"Sweep":  func() error { _, err := s.Sweep(t.Context()); return err },
		"Load":   func() error { _, _, err := d.Load(t.Context()); return err },
		"Create": func() error { return s.Create(t.Context()) },
		"Check":  func() error { return s.Check(t.Context()) },
	} {
		if err := call(); !errors.Is(err, lines) || !strings.HasSuffix(err.Error(), "failed to connect: one: refused two: refused") {
			t.Errorf("%s: error %q, want one line that wraps that of the client", name, err)
		}
	}
	s.Query = fails(refused("3F000"))
	if err := s.Create(t.Context()); err == nil || !strings.Contains(err.Error(), "CREATE SCHEMA") {
		t.Errorf("Create where the schema is missing: %v, want what makes it", err)
	}
}

// TestDocumentErrors: an error says whether it is certain that nothing was replaced.
func TestDocumentErrors(t *testing.T) {
	for err, unchanged := range map[error]bool{
		refused("25006"): true, refused("57P01"): false, errors.New("broken pipe"): false, safely(true): true,
	} {
		_, ok, got := (&Document{Query: fails(err)}).Swap(t.Context(), "", []byte("x"))
		var known interface{ Unchanged() bool }
		if ok || !errors.Is(got, err) || !errors.As(got, &known) || known.Unchanged() != unchanged || !strings.HasPrefix(got.Error(), `throttlesql: document "overlay": `) {
			t.Errorf("after %v: Swap = %t, %v, want Unchanged %t", err, ok, got, unchanged)
		}
	}
}

func TestBadQuestions(t *testing.T) {
	l := limit.Limit{Count: 5, Period: time.Second}
	many := make([]limit.Ask, maxAsks+1)
	for i := range many {
		many[i] = limit.Ask{Key: fmt.Sprint(i), Limit: l}
	}
	query := fails(errors.New("asked"))
	for _, c := range []struct {
		s     *Store
		a     []limit.Ask
		d     int
		words string
	}{
		{&Store{Query: query}, many[:2], 1, "differ in number"},
		{&Store{Query: query}, []limit.Ask{many[0], many[1], many[0]}, 3, `two asks about the key "0"`},
		{&Store{Query: query}, many, len(many), "at most 1000"},
		{&Store{}, many[:1], 1, "has no Query"},
		{&Store{Query: query, Table: `a"b`}, many[:1], 1, "write NAME or SCHEMA.NAME"},
		{&Store{Query: query}, many[:1], 1, "asked"},
	} {
		if _, err := c.s.Take(t.Context(), c.a, make([]limit.Decision, c.d)); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("Take of %d: error %v, want %q", len(c.a), err, c.words)
		}
	}
}

// TestNothingToRemember: who is not limited, or allowed nothing, does not depend
// on PostgreSQL.
func TestNothingToRemember(t *testing.T) {
	s := &Store{Query: fails(errors.New("asked"))}
	a := []limit.Ask{{Key: "k", N: 1}, {Key: "l", Limit: limit.Limit{Period: time.Second}, N: 1}}
	d := make([]limit.Decision, 2)
	if ok, err := s.Take(t.Context(), a, d); ok || err != nil || !d[0].OK || d[0].N != 0 || d[1].OK {
		t.Errorf("Take(%+v) = %v, %v, %+v", a, ok, err, d)
	}
	if ok, err := s.Take(t.Context(), a[:1], d[:1]); !ok || err != nil || d[0].N != 1 {
		t.Errorf("Take(%+v) = %v, %v, %+v", a[:1], ok, err, d[:1])
	}
	if ok, err := s.Take(t.Context(), nil, nil); !ok || err != nil {
		t.Errorf("Take of nothing = %v, %v", ok, err)
	}
}

func TestSchema(t *testing.T) {
	for table, prefix := range map[string]string{
		"":              `"throttle`,
		"limits":        `"limits`,
		"app.My limits": `"app"."My limits`,
		"app.per_take":  `"app"."per_take`,
	} {
		text, err := (&Store{Table: table}).Schema()
		if err != nil {
			t.Errorf("Schema of %q: %v", table, err)
		}
		// In another encoding than UTF-8 it may not exist, or be other bytes.
		if at := strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }); at >= 0 {
			t.Errorf("Schema of %q is not in ASCII: %.30q", table, text[at:])
		}
		for _, name := range []string{"", "_fence", "_log", "_id", "_take2", "_look2", "_several2", "_sweep2"} {
			if !strings.Contains(text, prefix+name+`"`) {
				t.Errorf("Schema of %q makes no %s%s\"", table, prefix, name)
			}
		}
		if table != "" && strings.Contains(text, `"throttle`) {
			t.Errorf("Schema of %q has names of another", table)
		}
	}
	logged, _ := (&Store{Logged: true}).Schema()
	if !strings.Contains(logged, `CREATE TABLE "throttle" (`) || strings.Count(logged, "CREATE UNLOGGED TABLE") != 2 {
		t.Error("with Logged there is not one logged table and two that are not")
	}
	for _, bad := range []string{".", "a.", ".a", "a.b.c", `a"b`, "a'b", "a$b", `a\b`, "a\nb", "a\x00", "\xff", strings.Repeat("x", 41)} {
		if text, err := (&Store{Table: bad}).Schema(); err == nil {
			t.Errorf("Schema of %q is no error but %.60q", bad, text)
		}
	}
}

// TestNames: two tables share neither functions nor what sessions know.
func TestNames(t *testing.T) {
	one, err := (&Store{Query: fails(nil), Table: "one"}).statements()
	if err != nil {
		t.Fatal(err)
	}
	two, err := (&Store{Query: fails(nil), Table: "two"}).statements()
	if err != nil {
		t.Fatal(err)
	}
	known := func(text string) string { return regexp.MustCompile(`'throttle\.since_[0-9a-f]+'`).FindString(text) }
	if a, b := known(one.whole), known(two.whole); a == b || a == "" || known(one.decide) != a || known(one.slide) != a {
		t.Errorf("sessions know since when nothing was lost under the names %q of %q and %q of %q", a, "one", b, "two")
	}
	for _, text := range []string{one.whole, one.decide, one.slide} {
		if strings.HasPrefix(text, "--") || !strings.Contains(text, `"one"`) {
			t.Errorf("statement %q", text)
		}
	}
}

func TestArguments(t *testing.T) {
	a := []limit.Ask{
		{Key: "b\x00\xff", Limit: limit.Limit{Count: 3, Period: time.Second}, N: 2},
		{Key: "nothing", Limit: limit.Limit{}, N: 2},
		{Key: "a", Limit: limit.Limit{Kind: limit.CalendarWindow, Count: 3, Period: time.Hour, Zone: time.FixedZone(`"\`, 3600)}, N: 1, Min: 1},
	}
	r := new(Store).plan(a, new(fewItems))
	r.items[0].carried = &carried{from: "4/s"}
	keys, lims, olds, list := r.takeArguments(time.Now().UnixMicro())
	want := [...]string{`{"\\x61","\\x6200ff"}`, `{"3/h calendar-window \"\\","3/s"}`, `{NULL,"4/s"}`}
	if got := [...]string{keys, lims, olds}; got != want {
		t.Errorf("arguments\n %q, want\n %q", got, want)
	}
	if n := strings.Count(list, ",") + 1; n != 2*numbersPerKey {
		t.Errorf("%d numbers, want %d of each of 2 keys: %s", n, numbersPerKey, list)
	}
}

// TestCarriedStays: of several keys whose limits change hands, what was found out about
// one is not lost as another is found.
func TestCarriedStays(t *testing.T) {
	now := limit.Limit{Count: 3, Period: time.Second}
	r := new(Store).plan([]limit.Ask{{Key: "a", Limit: now, N: 1}, {Key: "b", Limit: now, N: 1}}, new(fewItems))
	for _, under := range []string{"2/s\n", "\n4/s"} { // a, then b
		if err := r.carryOver(&reply{states: "{0,0,0,0,0,0,0,0}", under: &under}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, olds, _ := r.takeArguments(0); olds != `{"2/s","4/s"}` {
		t.Errorf("carried over from %s, want from both limits", olds)
	}
}

func TestShort(t *testing.T) {
	long := strings.Repeat("x", longestKey+1)
	for key, same := range map[string]bool{
		"":              true,
		"\x00":          true,
		long[1:]:        true,
		long:            false,
		long + "y":      false,
		short(long):     false, // it must not pose as long
		short(long)[1:]: true,
	} {
		if got := short(key); (got == key) != same || len(got) > longestKey {
			t.Errorf("short(%.40q) = %.40q, the same: want %v", key, got, same)
		}
	}
}

// TestHints: a key is likely to be refused from when the same would be until it
// would not.
func TestHints(t *testing.T) {
	s := &Store{}
	r := &request{asks: []limit.Ask{{N: 2}}, items: []item{{key: "k", limit: new(prepared)}}}
	for _, step := range []struct {
		remaining int64
		want      bool
	}{{2, false}, {1, true}, {0, true}, {5, false}, {0, true}} {
		s.noteRefusals(r, []limit.Decision{{Remaining: step.remaining}})
		if got := s.likelyRefused("k"); got != step.want {
			t.Errorf("with %d remaining, it is likely that 2 are refused: %v, want %v", step.remaining, got, step.want)
		}
	}
	if s.likelyRefused("another") {
		t.Error("another key is likely to be refused")
	}
}
