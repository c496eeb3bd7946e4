package replay

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/accesslog"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// Lines out of order are noted for a proposal too, with the share of each file.
func TestLateLinesOfAProposal(t *testing.T) {
	a := written(t, "a.log", lines(30, 1, time.Second, "/")+lines(3, 1, time.Second, "/"))
	b := written(t, "b.log", lines(30, 1, time.Second, "/"))
	r := reportOf(t, "-suggest", "address", a, b)
	if want := "3 requests were out of order by more than -window 10s, or behind more than 10,000 lines or 32 MiB that waited"; !strings.Contains(strings.Join(r.Notes, "\n"), want) {
		t.Errorf("notes %q, want %s", r.Notes, want)
	}
}

// Lines that are no HTTP request are left out and noted.
func TestLinesWithoutARequest(t *testing.T) {
	odd := strings.ReplaceAll(lines(5, 1, time.Second, "/"), "GET / HTTP/1.1", "-")
	r := reportOf(t, "-rules", written(t, "r.yaml", perAddress), written(t, "a.log", lines(12, 1, time.Second, "/")+odd))
	if n := r.Replay.Sides[0].Refused; r.Requests != 12 || n != 2 || !strings.Contains(strings.Join(r.Notes, "\n"), "5 lines are no HTTP request, and left out") {
		t.Errorf("%d requests, %d refused, notes %q; want 12, 2", r.Requests, n, r.Notes)
	}
	_, errs, code := clitest.Play(t.Context(), Run, "-suggest", "address", written(t, "b.log", odd))
	if code != 2 || !strings.Contains(errs, "replay: none of 5 lines has an HTTP request") {
		t.Errorf("no request at all: %d, %s", code, errs)
	}
}

// Why there is nothing to propose is said: no request that matches, none with the key,
// none that is honest, or too short a log.
func TestNothingToPropose(t *testing.T) {
	hours := written(t, "a.log", lines(300, 1, 100*time.Second, "/"))
	short := written(t, "b.log", lines(60, 1, time.Second, "/"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-suggest", "address", "-only", "POST /x", hours}, `no request matches -only "POST /x"`},
		{[]string{"-suggest", "header:X-Api-Key", hours}, "no request has a header:X-Api-Key; -fields names what the log has"},
		{[]string{"-suggest", "header:X-Api-Key", "-only", "GET /", hours}, `no request that matches -only "GET /" has a header:X-Api-Key; -fields names what the log has`},
		{[]string{"-suggest", "header:X-Api-Key", "-only", "/x", hours}, "no request matches -only /x"},
		{[]string{"-suggest", "address", "-flood", "1/h", hours}, "each key is above -flood 1/h, which leaves none that is honest; raise it"},
		{[]string{"-suggest", "address", short}, "the log covers 59 s, and a limit by 10s needs 80 s"},
	} {
		out, errs, code := clitest.Play(t.Context(), Run, c.args...)
		if want := "nothing to propose: " + c.want + "\n"; code != 0 || !strings.HasSuffix(out, want) {
			t.Errorf("replay %q: %d, %s%s; want %s", c.args, code, out, errs, want)
		}
		_, errs, code = clitest.Play(t.Context(), Run, append([]string{"-o", filepath.Join(t.TempDir(), "new.json")}, c.args...)...)
		if want := "throttle: replay: -o: nothing to propose: " + c.want + "\n"; code != 1 || errs != want {
			t.Errorf("replay -o %q: %d, %s; want %s", c.args, code, errs, want)
		}
	}
}

// Rules for descriptors, which no log has, are named in one note.
func TestRulesForDescriptors(t *testing.T) {
	text := perAddress
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		text += "  - {name: for-" + name + ", match: {domains: edge, descriptor: " + name + "}, cost: hits_addend, limits: 1/h}\n"
	}
	r := reportOf(t, "-rules", written(t, "r.yaml", text), written(t, "a.log", lines(3, 1, time.Second, "/")))
	want := "no log has descriptors of Envoy, so 6 rules for them refuse nothing here: for-a, for-b, for-c, for-d, for-e, ..."
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, want) || strings.Contains(notes, "hits_addend") {
		t.Errorf("notes %q, want %s", r.Notes, want)
	}
}

// A source of -fields that no line of JSON has is noted.
func TestMissingSource(t *testing.T) {
	log := written(t, "a.json", `{"ts":1795371261,"path":"/"}`+"\n")
	r := reportOf(t, "-rules", written(t, "r.yaml", perAddress), "-fields", "header:x-api-key=apikey", log)
	if !strings.Contains(strings.Join(r.Notes, "\n"), `-fields: no line has a text or a number named apikey`) {
		t.Errorf("notes %q", r.Notes)
	}
	_, errs, code := clitest.Play(t.Context(), Run, "-suggest", "address", "-fields", "host="+strings.Repeat("h", 65), log)
	if code != 2 || !strings.Contains(errs, "of 65 bytes; at most 64") {
		t.Errorf("a long source: %d, %s", code, errs)
	}
}

// Of a second with more requests than are spread, those beyond come at its end.
func TestSpreadOfManyInASecond(t *testing.T) {
	log := written(t, "a.log", lines(2*mostSpread+1, 1, 0, "/")+lines(1, 1, 0, "/b"))
	open, err := accesslog.Open(t.Context(), []string{log}, nil, accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, n := spreader{log: open, on: true}, 0
	last := start
	for ; ; n++ {
		e, _, at, err := s.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		if at.Before(last) || n >= mostSpread && at.Sub(start) != time.Second-1 {
			t.Fatalf("request %d at %v, after %v", n, at.Sub(start), last.Sub(start))
		}
		last = at
	}
	if n != 2*mostSpread+2 {
		t.Errorf("%d requests", n)
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}
}

// A long version leaves room for the factor.
func TestTimesOfALongVersion(t *testing.T) {
	file := written(t, "r.yaml", "version: "+strings.Repeat("v", mostVersion)+"\n"+perAddress)
	r := reportOf(t, "-rules", file, "-factor", "0.5", written(t, "a.log", lines(3, 1, time.Second, "/")))
	if got, want := r.Replay.Sides[1].Version, strings.Repeat("v", mostVersion-5)+"-x0.5"; got != want {
		t.Errorf("version %s, want %s", got, want)
	}
}
