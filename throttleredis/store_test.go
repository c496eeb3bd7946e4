package throttleredis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// answered is what the script answers at a time: for each ask what is given.
// about is since when the fence is, and whose it is if that is another.
func answered(now int64, about string, asks ...string) string {
	b := appendInt(nil, now)
	b = append(b, byte(len(about)))
	return string(b) + about + strings.Join(asks, "")
}

// held is the answer that a state was held.
func held(s limit.State) string {
	return string(appendInt(appendInt([]byte{answerPair}, s.T), s.N))
}

const fresh = "\x00"

// scripted is a Do that answers from a list, and remembers what it was asked.
type scripted struct {
	answers []any
	asked   [][]any
}

func (d *scripted) Do(_ context.Context, args ...any) (any, error) {
	d.asked = append(d.asked, append([]any(nil), args...))
	if len(d.answers) == 0 {
		return nil, errors.New("asked too often")
	}
	next := d.answers[0]
	d.answers = d.answers[1:]
	if err, ok := next.(error); ok {
		return nil, err
	}
	return next, nil
}

var (
	hour = limit.Limit{Count: 10, Period: time.Hour}
	late = int64(1_700_000_000_000_000)
)

func TestTakeDecidesAtTheTimeOfRedis(t *testing.T) {
	s, _ := limit.Take(limit.State{}, time.UnixMicro(late), limit.Ask{Limit: hour, N: 7})
	for _, answer := range []any{answered(late, "", held(s)), []byte(answered(late, "", held(s)))} {
		do := &scripted{answers: []any{answer}}
		store := &Store{Do: do.Do}
		d := make([]limit.Decision, 1)
		ok, err := store.Take(t.Context(), []limit.Ask{{Key: "a", Limit: hour, N: 4}}, d)
		_, want := limit.Take(s, time.UnixMicro(late), limit.Ask{Limit: hour, N: 4})
		if ok || err != nil || d[0] != want {
			t.Errorf("Take = %v, %v, %+v, want false, nil, %+v", ok, err, d[0], want)
		}
	}
}

func TestTakeLoadsTheScript(t *testing.T) {
	do := &scripted{answers: []any{
		errors.New("NOSCRIPT No matching script. Please use EVAL."), answered(late, "", fresh), answered(late, "", fresh),
	}}
	store := &Store{Do: do.Do, Prefix: "p:"}
	a := []limit.Ask{{Key: "a", Limit: hour, N: 1}}
	for range 2 {
		if ok, err := store.Take(t.Context(), a, make([]limit.Decision, 1)); !ok || err != nil {
			t.Fatalf("Take = %v, %v, want true, nil", ok, err)
		}
	}
	var names []string
	for _, args := range do.asked {
		names = append(names, args[0].(string))
		if got := fmt.Sprint(args[2:5]); got != "[2 p:{0} p:{0}:a]" {
			t.Errorf("%v has keys %v, want the fence and the key", args[0], got)
		}
		for i, arg := range args {
			if _, ok := arg.(string); !ok {
				t.Errorf("%v, argument %d is a %T, want a string", args[0], i, arg)
			}
		}
	}
	if got := strings.Join(names, " "); got != "EVALSHA EVAL EVALSHA" {
		t.Errorf("commands %s, want EVALSHA EVAL EVALSHA", got)
	}
	if text := do.asked[1][1].(string); !strings.HasPrefix(text, "#!lua\n") {
		t.Errorf("the script begins with %.20q, want #!lua", text)
	}
}

// TestTakeCarriesOver: a state under another limit is carried over, and the
// question put again with it; what only looks is answered at once.
func TestTakeCarriesOver(t *testing.T) {
	old := limit.Limit{Count: 20, Period: time.Hour}
	s, _ := limit.Take(limit.State{}, time.UnixMicro(late), limit.Ask{Limit: old, N: 5})
	value := fingerprint(&old) + held(s)[1:]
	other := string([]byte{answerOther, byte(len(value)), 0, 0, 0}) + value
	carried := limit.Change(s, time.UnixMicro(late), old, hour)
	for _, n := range []int64{0, 3} {
		do := &scripted{answers: []any{answered(late, "", other), answered(late, "", held(carried))}}
		store := &Store{Do: do.Do}
		d := make([]limit.Decision, 1)
		a := limit.Ask{Key: "a", Limit: hour, N: n}
		if _, err := store.Take(t.Context(), []limit.Ask{a}, d); err != nil {
			t.Fatal(err)
		}
		if _, want := limit.Take(carried, time.UnixMicro(late), a); d[0] != want {
			t.Errorf("N %d: %+v, want %+v", n, d[0], want)
		}
		if calls := len(do.asked); calls != 1+int(min(n, 1)) {
			t.Errorf("N %d: %d calls", n, calls)
		}
		if n == 0 {
			continue
		}
		again := do.asked[1]
		want := string(appendInt(appendInt(appendInt(nil, carried.T), carried.N), carried.P)) + value
		if ask := again[len(again)-1].(string); !strings.HasSuffix(ask, want) {
			t.Errorf("asked again with %q, want it to end with %q", ask, want)
		}
	}
}

// TestTakeSaysWhoWasMet: each call says whose data were met last, and when they
// were last looked at, and what the fence was.
func TestTakeSaysWhoWasMet(t *testing.T) {
	history := func(process, since byte, why string) string {
		return strings.Repeat(string(process), processLen) + string(appendInt(nil, int64(since))) + why
	}
	first, lost, second, flushed := history('1', 1, "n"), history('1', 2, "l"), history('2', 3, "l"), history('2', 4, "n")
	zeros := strings.Repeat("\x00", 7)
	since := string(appendInt(nil, 77))
	at := func(looked int64, since string) string { return string(appendInt(nil, looked)) + since }
	for _, n := range []int64{1, 2} { // prepared or not
		do := &scripted{}
		store := &Store{Do: do.Do, Overlap: time.Second, Strict: true}
		overlap := string(appendInt(nil, 1_000_000)) + zeros
		for i, c := range []struct{ answer, want string }{
			{answered(late, zeros+first, fresh), at(0, zeros) + overlap},
			{answered(late+1, "", fresh), at(late, zeros) + overlap + first},
			{answered(late+2, since, fresh), at(late, zeros) + overlap + first},
			{answered(late+3, "", fresh), at(late+2, since) + overlap + first},
			{answered(late+4, since+lost, fresh), at(late+2, since) + overlap + first},
			{answered(late+5, since+second, fresh), at(late+4, since) + overlap + lost},
			{answered(late+6, zeros+flushed, fresh), at(late+5, since) + overlap + second},
			{answered(late+7, "", fresh), at(late+6, zeros) + overlap + flushed},
		} {
			do.answers = []any{c.answer}
			if _, err := store.Take(t.Context(), []limit.Ask{{Key: "a", Limit: hour, N: n}}, make([]limit.Decision, 1)); err != nil {
				t.Fatal(err)
			}
			if got, want := do.asked[i][5].(string), "\x02\x01\x00"+c.want; got != want {
				t.Errorf("call %d of %d says %q, want %q", i, n, got, want)
			}
		}
		if c := store.Stats(); c.Replaced != 2 || c.Flushed != 1 || (c.Ahead-time.Until(time.UnixMicro(late))).Abs() > time.Second {
			t.Errorf("Stats() = %+v, want two replaced, one flushed, and the clock as far ahead as it is", c)
		}
	}
}

func TestTakeEndlessly(t *testing.T) {
	old := limit.Limit{Count: 20, Period: time.Hour}
	value := fingerprint(&old) + held(limit.State{T: late + 1000})[1:]
	other := string([]byte{answerOther, byte(len(value)), 0, 0, 0}) + value
	store := &Store{Do: func(context.Context, ...any) (any, error) { return answered(late, "", other), nil }}
	_, err := store.Take(t.Context(), []limit.Ask{{Key: "a", Limit: hour, N: 1}}, make([]limit.Decision, 1))
	if err == nil || !strings.Contains(err.Error(), "changed 8 times") {
		t.Errorf("a limit that always changes: error %v", err)
	}
	garbage := &Store{Do: func(context.Context, ...any) (any, error) {
		return answered(late, "", "\x04\x02\x00\x00\x00xy"), nil
	}}
	_, err = garbage.Take(t.Context(), []limit.Ask{{Key: "a", Limit: hour, N: 1}}, make([]limit.Decision, 1))
	if err == nil || !strings.Contains(err.Error(), `key "a" holds what this package has not written`) {
		t.Errorf("a value of another kind: error %v", err)
	}
}

// TestErrors: each says whether anything may have been charged, and keeps the
// error of the client.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err     error
		charged bool
		is      error
	}{
		{io.EOF, true, io.EOF},
		{context.DeadlineExceeded, true, context.DeadlineExceeded},
		{&net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}, false, io.ErrUnexpectedEOF},
		{&net.OpError{Op: "read", Err: io.ErrUnexpectedEOF}, true, io.ErrUnexpectedEOF},
		{errors.New("OOM command not allowed when used memory > 'maxmemory'."), false, ErrFull},
		{errors.New("redis: OOM allow-oom flag is not set on the script"), false, ErrFull},
		{errors.New("READONLY You can't write against a read only replica."), false, nil},
		{errors.New("CROSSSLOT Keys in request don't hash to the same slot"), false, nil},
		{errors.New("NOPERM ACL failure in script: User a has no permissions to run the 'set' command"), false, nil},
		{errors.New("NOPERM No permissions to access a key"), false, nil},
		{errors.New("WRONGPASS invalid username-password pair or user is disabled."), false, nil},
		{errors.New("dial tcp 127.0.0.1:1: connect: connection refused"), false, nil},
		{errors.New("failed to connect to redis: dial error"), false, nil},
		{errors.New("ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'"), false, ErrVersion},
		{errors.New("ERR DB index is out of range"), false, nil},
		{errors.New("ERR SELECT is not allowed in cluster mode"), false, nil},
		{errors.New("ERR AUTH <password> called without any password configured for the default user."), false, nil},
		{errors.New("ERR Client sent AUTH, but no password is set"), false, nil},
		{errors.New("ERR This instance has cluster support disabled"), false, nil},
		{errors.New("remote error: tls: certificate required"), false, nil},
		{errors.New("remote error: tls: unknown certificate authority"), false, nil},
		{errors.New("remote error: tls: bad record MAC"), true, nil},
		{errors.New("tls: first record does not look like a TLS handshake"), false, nil},
		{errors.New("redis: connection pool timeout"), false, nil},
		{errors.New("redigo: connection pool exhausted"), false, nil},
		{errors.New("read tcp 127.0.0.1:1: i/o timeout"), true, nil},
		{errors.New("ERR user_script:1: whatever"), true, nil},
		{errors.New("a ROOM with a view"), true, nil},
		{errors.Join(io.EOF, io.ErrUnexpectedEOF), true, io.EOF},
	} {
		store := &Store{Do: func(context.Context, ...any) (any, error) { return nil, c.err }}
		ok, err := store.Take(t.Context(), []limit.Ask{{Key: "a", Limit: hour, N: 1}}, make([]limit.Decision, 1))
		var e *Error
		if ok || !errors.As(err, &e) || e.Charged != c.charged {
			t.Errorf("after %v: Take = %v, %v, want an Error with Charged %v", c.err, ok, err, c.charged)
			continue
		}
		if !errors.Is(err, c.err) || c.is != nil && !errors.Is(err, c.is) || (c.is != ErrFull && errors.Is(err, ErrFull)) {
			t.Errorf("after %v: %v does not wrap it, or is another", c.err, err)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q has several lines", err)
		}
	}
}

func TestReplies(t *testing.T) {
	whole := answered(late, "since77", held(limit.State{T: late + 1}))
	bad := []any{nil, int64(1), []any{}, whole[:15] + "\x09", answered(late, "p", fresh)}
	for i := range whole {
		bad = append(bad, whole[:i])
	}
	for _, answer := range bad {
		store := &Store{Do: func(context.Context, ...any) (any, error) { return answer, nil }}
		_, err := store.Take(t.Context(), []limit.Ask{{Key: "a", Limit: hour, N: 1}}, make([]limit.Decision, 1))
		var e *Error
		if !errors.As(err, &e) || !e.Charged {
			t.Errorf("answer %q: error %v, want one that says it may have been charged", answer, err)
		}
	}
}

func TestTakeRefusesLimits(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, c := range []struct {
		l  limit.Limit
		ok bool
	}{
		{limit.Limit{Count: maxCount, Period: time.Second}, true},
		{limit.Limit{Count: maxCount + 1, Period: time.Second}, false},
		{limit.Limit{Count: math.MaxInt64, Period: time.Second}, false},
		{limit.Limit{Count: 10, Period: time.Second, Burst: maxCount + 1}, false},
		{limit.Limit{Count: 1, Period: year, Burst: 71}, true},
		{limit.Limit{Count: 1, Period: year, Burst: 72}, false},
		{limit.Limit{Count: 1, Period: math.MaxInt64}, false},
		{limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: 71 * year}, true},
		{limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: 72 * year}, false},
		{limit.Limit{Kind: limit.SlidingLog, Count: math.MaxInt64, Period: time.Second}, true}, // MaxLog
		{limit.Limit{Kind: limit.SlidingSlots, Count: math.MaxInt64, Period: time.Second}, false},
		{limit.Limit{Count: math.MaxInt64}, true},
		{limit.Limit{Count: math.MinInt64, Period: math.MaxInt64}, true},
	} {
		store := &Store{Do: func(context.Context, ...any) (any, error) { return answered(late, "", fresh), nil }}
		_, err := store.Take(t.Context(), []limit.Ask{{Key: "a", Limit: c.l, N: 1}}, make([]limit.Decision, 1))
		if (err == nil) != c.ok {
			t.Errorf("%+v: error %v, want any: %v", c.l, err, !c.ok)
		}
		if err != nil && !strings.HasPrefix(err.Error(), `throttleredis: limit of key "a": `) {
			t.Errorf("%+v: error %q does not say which key", c.l, err)
		}
	}
}

// TestNothingToAsk: a limit that remembers nothing is answered here, and one
// that allows nothing refuses the others.
func TestNothingToAsk(t *testing.T) {
	do := &scripted{}
	store := &Store{Do: do.Do}
	d := make([]limit.Decision, 2)
	free, shut := limit.Limit{}, limit.Limit{Period: time.Hour}
	if ok, err := store.Take(t.Context(), []limit.Ask{{Key: "a", Limit: free, N: 5}, {Key: "b", Limit: shut}}, d); ok || err != nil || !d[0].OK || d[1].OK || len(do.asked) > 0 {
		t.Errorf("Take = %v, %v, %+v, after %d calls", ok, err, d, len(do.asked))
	}
	do.answers = []any{answered(late, "", fresh)}
	ok, err := store.Take(t.Context(), []limit.Ask{{Key: "a", Limit: hour, N: 5}, {Key: "b", Limit: shut, N: 1}}, d)
	if ok || err != nil || !d[0].OK || d[0].N != 0 || d[0].Remaining != 10 {
		t.Errorf("Take = %v, %v, %+v, want the second refused and the first not charged", ok, err, d)
	}
	if ask := do.asked[0][6].(string); ask[1]&flagRefused == 0 {
		t.Errorf("asked %q, want it to say that it is refused", ask)
	}
	many := make([]limit.Ask, 256)
	for i := range many {
		many[i] = limit.Ask{Key: fmt.Sprint(i), Limit: hour}
	}
	if _, err := store.Take(t.Context(), many, make([]limit.Decision, 256)); err == nil {
		t.Error("Take of 256 asks: no error")
	}
}

// TestNoDo: without a client every call is an error that says so.
func TestNoDo(t *testing.T) {
	ctx, document := t.Context(), &Document{}
	for call, f := range map[string]func(s *Store) error{
		"Take":     func(s *Store) error { return one(ctx, s, "a") },
		"Check":    func(s *Store) error { return s.Check(ctx) },
		"Expect":   func(s *Store) error { return s.Expect(ctx, strings.Repeat("a", processLen), time.Second) },
		"Unexpect": func(s *Store) error { return s.Unexpect(ctx) },
		"Load":     func(*Store) error { _, _, err := document.Load(ctx); return err },
		"Swap":     func(*Store) error { _, _, err := document.Swap(ctx, "", []byte("a")); return err },
	} {
		err := f(&Store{})
		var e *Error
		if err == nil || !strings.Contains(err.Error(), "there is no Do") || errors.As(err, &e) && e.Charged {
			t.Errorf("%s without a Do: error %v, want one that says so and charged nothing", call, err)
		}
	}
}

// TestDocumentErrors: each is one line that names the key, and says whether it is
// certain that nothing was replaced.
func TestDocumentErrors(t *testing.T) {
	for _, c := range []struct {
		err       error
		unchanged bool
		words     string
	}{
		{io.EOF, false, `document "throttle:overlay": EOF`},
		{errors.New("READONLY You can't write against a read only replica."), true, "READONLY"},
		{errors.New("ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'"), true, "use Redis 7.0"},
		{errors.New("WRONGTYPE Operation against a key holding the wrong kind of value"), true, "delete it, or use another Name"},
		{&net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}, true, "dial"},
	} {
		d := &Document{Do: func(context.Context, ...any) (any, error) { return nil, c.err }}
		_, ok, err := d.Swap(t.Context(), "", []byte("x"))
		var known interface{ Unchanged() bool }
		if ok || !errors.Is(err, c.err) || !errors.As(err, &known) || known.Unchanged() != c.unchanged ||
			!strings.Contains(err.Error(), c.words) || !strings.HasPrefix(err.Error(), `throttleredis: document "throttle:overlay": `) {
			t.Errorf("after %v: Swap = %t, %v, want Unchanged %t and %q", c.err, ok, err, c.unchanged, c.words)
		}
	}
}
