package signal

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// page is where a fixture's answer was read, and when.
var page = regexp.MustCompile(`^# page: (https?://\S+ \(read \d{4}-\d\d(-\d\d)?\)|none \(made up\))$`)

// fixture is an answer in a file: comments that begin with #, the first of
// which names the host or the preset and the second the page that it was read
// from, a status line, fields, a body.
type fixture struct {
	dialect *Dialect
	status  int
	fields  string
	body    []byte
}

func readFixture(t *testing.T, name string) (f fixture) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(text), "\n\n")
	f.body = []byte(body)
	lines := strings.Split(head, "\n")
	if host, ok := strings.CutPrefix(lines[0], "# host: "); ok {
		f.dialect = For(host)
		if f.dialect == general {
			t.Errorf("%s: no preset lists the host %s", name, host)
		}
	} else if f.dialect, ok = Named(strings.TrimPrefix(lines[0], "# preset: ")); !ok {
		t.Fatalf("%s: begins with %q, want '# host: ' or '# preset: '", name, lines[0])
	}
	if !page.MatchString(lines[1]) {
		t.Errorf("%s: second line %q, want '# page: https://... (read 2026-11-22)'", name, lines[1])
	}
	for strings.HasPrefix(lines[0], "#") {
		lines = lines[1:]
	}
	f.status, err = strconv.Atoi(strings.Fields(lines[0])[1])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	f.fields = strings.Join(lines[1:], "\n")
	return f
}

// tell is a reading in lines, what was not said left out.
func tell(r Reading) string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%-12s %v\n", name, value) }
	line("verdict", r.Verdict)
	if r.Permanent {
		line("permanent", "yes")
	}
	if r.Retryable {
		line("retryable", "yes")
	}
	if r.After.OK {
		line("wait", r.After.V)
	}
	if r.By != "" {
		line("by", r.By)
	}
	if r.Reason != "" {
		line("reason", r.Reason)
	}
	if r.Scope != ScopeUnknown || r.ScopeName != "" {
		line("scope", strings.TrimSpace(r.Scope.String()+" "+r.ScopeName))
	}
	if r.Concurrency {
		line("concurrency", "yes")
	}
	if r.Limit.OK || r.Remaining.OK || r.Reset.OK {
		line("limit", tellPolicy(Policy{Unit: requests, Limit: r.Limit, Remaining: r.Remaining, Window: r.Window, Reset: r.Reset}))
	}
	for _, p := range r.Policies {
		line("policy", tellPolicy(p))
	}
	if r.Cost.OK {
		line("cost", r.Cost.V)
	}
	return b.String()
}

func tellPolicy(p Policy) string {
	text := p.Unit
	if p.Name != "" {
		text = p.Name + " " + text
	}
	add := func(ok bool, name string, v any) {
		if ok {
			text += fmt.Sprint(" ", name, "=", v)
		}
	}
	add(p.Remaining.OK, "remaining", p.Remaining.V)
	add(p.Limit.OK, "limit", p.Limit.V)
	add(p.Window.OK, "window", p.Window.V)
	add(p.Reset.OK, "reset", p.Reset.V)
	add(p.Partition != "", "partition", p.Partition)
	return text
}

// TestFixtures holds what every row of the table says to what was reviewed.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 220 {
		t.Fatalf("found %d fixtures, %v", len(files), err)
	}
	seen, vendors := map[*Dialect]bool{}, map[string]bool{}
	for _, file := range files {
		f := readFixture(t, file)
		vendor, _, _ := strings.Cut(filepath.Base(file), "-")
		seen[f.dialect], vendors[vendor] = true, true
		r := f.dialect.Read(f.status, lines(f.fields), f.body, t0)
		checkFile(t, strings.TrimSuffix(file, ".txt")+".golden", tell(r))
		explained, _ := f.dialect.Explain(f.status, lines(f.fields), f.body, t0)
		if got, want := tell(explained), tell(r); got != want {
			t.Errorf("%s: Explain reads\n%swant as Read\n%s", file, got, want)
		}
		late := t0.Add(-17 * time.Hour) // by our own clock; Date tells the server's
		if got, want := tell(f.dialect.Read(f.status, lines(f.fields), f.body, late)), tell(r); got != want {
			t.Errorf("%s: by another clock reads\n%swant\n%s", file, got, want)
		}
		checkBounds(t, file, r)
	}
	if len(vendors) < 60 {
		t.Errorf("fixtures of %d vendors, want 60 at least", len(vendors))
	}
	for _, d := range dialects {
		if !seen[d] {
			t.Errorf("dialect %s has no fixture", d.Name())
		}
	}
}

// checkBounds holds a reading within what Reading promises.
func checkBounds(t *testing.T, what string, r Reading) {
	t.Helper()
	policies := append([]Policy{{Unit: requests, Limit: r.Limit, Remaining: r.Remaining, Window: r.Window, Reset: r.Reset}}, r.Policies...)
	for _, p := range policies {
		if p.Limit.V < 0 || p.Limit.V > maxCount || p.Remaining.V < 0 || p.Remaining.V > maxCount {
			t.Errorf("%s: %d of %d; want 0 to %d", what, p.Remaining.V, p.Limit.V, int64(maxCount))
		}
		if p.Reset.V < 0 || p.Reset.V > MaxAfter || p.Window.V < 0 || p.Window.V > maxWindow || p.Window.OK && p.Window.V == 0 {
			t.Errorf("%s: reset %v, window %v; want 0 to %v, above 0 to %v", what, p.Reset.V, p.Window.V, MaxAfter, maxWindow)
		}
		if p.Unit == "" || len(p.Name) > maxText || len(p.Unit) > maxText || len(p.Partition) > maxText {
			t.Errorf("%s: unit %q, name %q, partition %q; want a unit, none above %d bytes", what, p.Unit, p.Name, p.Partition, maxText)
		}
	}
	if a := r.Report().After; r.After.V < 0 || r.After.V > MaxAfter || a < 0 || a > MaxAfter {
		t.Errorf("%s: wait %v, of the report %v; want 0 to %v", what, r.After.V, a, MaxAfter)
	}
	if r.Asked && !r.After.OK {
		t.Errorf("%s: asked for a wait, and yet there is none", what)
	}
	if len(r.Reason) > maxText || len(r.ScopeName) > maxText || len(r.Policies) > maxPolicies {
		t.Errorf("%s: reason %q, name %q, %d policies; want at most %d bytes and %d", what, r.Reason, r.ScopeName, len(r.Policies), maxText, maxPolicies)
	}
	if r.Permanent && (r.After.OK && r.Verdict != pace.Throttled || !r.Report().Final) {
		t.Errorf("%s: permanent, and yet %v, wait %v, final %v", what, r.Verdict, r.After, r.Report().Final)
	}
}
