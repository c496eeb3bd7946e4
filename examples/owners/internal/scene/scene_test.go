package scene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

func TestExit(t *testing.T) {
	play := func(_ context.Context, out io.Writer) error {
		fmt.Fprintln(out, "played")
		return nil
	}
	fails := func(context.Context, io.Writer) error { return errors.New("no port is free") }
	for _, c := range []struct {
		args           []string
		play           func(context.Context, io.Writer) error
		code           int
		stdout, stderr string
	}{
		{nil, play, 0, "played\n", ""},
		{nil, fails, 1, "", "flood: no port is free\n"},
		{[]string{"-h"}, play, 0, "flood: about. It takes no flags and ends by itself.\n", ""},
		{[]string{"-x\ny"}, play, 2, "", `flood: "-x\ny" is one flag or argument too many, as there are none; -h says what it shows` + "\n"},
		{[]string{"10", "20"}, play, 2, "", `flood: "10" is one flag or argument too many, as there are none; -h says what it shows` + "\n"},
	} {
		var stdout, stderr strings.Builder
		code := exit(t.Context(), append([]string{"/tmp/flood"}, c.args...), &stdout, &stderr, "about", c.play)
		if code != c.code || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("exit(%q) = %d, %q, %q; want %d, %q, %q", c.args, code, &stdout, &stderr, c.code, c.stdout, c.stderr)
		}
	}
}

// Load keeps its rate, to the call that is in flight when it ends, and makes up
// for a pause in which the machine did nothing; what finds no place is left out.
func TestLoad(t *testing.T) {
	for _, c := range []struct {
		perSecond float64
		most      int
		each      time.Duration
		least     int64
	}{
		{300, 100, 0, 300},
		{300, 100, 100 * time.Millisecond, 300}, // 30 at a time
		{300, 10, 100 * time.Millisecond, 100},
	} {
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var n atomic.Int64
			Load(ctx, c.perSecond, c.most, func() {
				n.Add(1)
				time.Sleep(c.each)
			})
			if got := n.Load(); got < c.least || got > c.least+10 {
				t.Errorf("Load(1 s, %v, %d) of calls of %v: %d calls, want %d and 10 more at most", c.perSecond, c.most, c.each, got, c.least)
			}
		})
	}
}

func TestTally(t *testing.T) {
	var tally Tally
	if tally.Median() != 0 {
		t.Errorf("Median() of nothing = %v, want 0", tally.Median())
	}
	told := func(seconds string) http.Header { return http.Header{"Retry-After": {seconds}} }
	for _, a := range []Answer{
		{Status: 200, Took: 3},
		{Status: 204, Took: 1},
		{Status: 201, Took: 2},
		{Status: 429, Header: told("3")},
		{Status: 429},
		{Status: 503, Header: told("0")},
		{Status: 503, Header: told("2")},
	} {
		tally.Add(a, nil)
	}
	lost := errors.New("lost")
	tally.Add(Answer{}, lost)
	tally.Add(Answer{}, io.EOF)
	if got, want := tally.Row(), "9|3|2"; got != want {
		t.Errorf("Row() = %s, want %s", got, want)
	}
	got := fmt.Sprint(tally.Of(503), tally.Untold(), tally.Unanswered(), int(tally.Median()), tally.Err())
	if want := "2 2 2 2 lost"; got != want {
		t.Errorf("503, untold, unanswered, median and first error = %s, want %s", got, want)
	}
	if least, most := tally.Told(); least != 2 || most != 3 {
		t.Errorf("Told() = %d, %d; want 2, 3", least, most)
	}
}

// Requests come from the address that was asked for, with the key and the fields.
func TestSend(t *testing.T) {
	url, stop, err := Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, _ := strings.Cut(r.RemoteAddr, ":")
		fmt.Fprint(w, r.Method, " ", r.URL.Path, " ", from, " ", Keys{"k1": "first"}.Customer(r), " ", r.Header.Get("X-A"))
	}))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Caller{URL: url, Key: "k1", Client: From("127.0.0.9"), Header: http.Header{"X-A": {"b"}}}.Send(t.Context(), "PUT", "/c")
	if want := "PUT /c 127.0.0.9 first b"; err != nil || a.Body != want || a.Status != 200 || a.Took <= 0 {
		t.Errorf("Send() = %+v, %v; want the body %q", a, err, want)
	}
	stop()
	if _, err := (Caller{URL: url}).Send(t.Context(), "GET", "/"); err == nil {
		t.Error("Send() after stop = nil, want an error")
	}
}
