package signal

import (
	"bytes"
	"net/http"
	"net/textproto"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/pace"
)

// FuzzRead reads anything by any dialect: no panic, nothing out of bounds, the
// same twice and in explanation.
func FuzzRead(f *testing.F) {
	f.Add(uint8(255), 429, "Retry-After: 120\nDate: Fri, 06 Nov 2026 08:49:37 GMT", "")
	f.Add(uint8(255), 503, "Retry-After: Friday, 06-Nov-26 08:50:07 GMT\nAge: 3", "")
	f.Add(uint8(255), 200, "RateLimit: \"a\\\"b\";r=50;t=30, b;r=1\nRateLimit-Policy: \"a\\\"b\";q=100;w=60;qu=\"requests\"", "")
	f.Add(uint8(255), 200, "RateLimit: limit=100, remaining=99, reset=50\nRateLimit-Policy: 100;w=60", "")
	f.Add(uint8(255), 200, "X-RateLimit-Limit: 12, 12;w=1\nX-RateLimit-Remaining: 5.5\nX-RateLimit-Reset: 1793954978500", "")
	for i, d := range dialects {
		f.Add(uint8(i), 429, strings.Join(places(d), ": 1\n")+": 1", `{"error":{"code":"1","details":[{"retryDelay":"1s"}]},"errors":[{"extensions":{"code":"THROTTLED"}}]}`)
	}
	f.Fuzz(func(t *testing.T, which uint8, status int, fields, body string) {
		d := dialects[min(int(which), len(dialects)-1)]
		field := indexed(fields)
		r := d.Read(status, field, []byte(body), t0)
		checkBounds(t, d.Name(), r)
		if r.Verdict > pace.Failed || r.Verdict == pace.Ignored {
			t.Errorf("verdict %v, want served, throttled or failed", r.Verdict)
		}
		again, notes := d.Explain(status, field, []byte(body), t0)
		if !reflect.DeepEqual(again, r) {
			t.Errorf("Read says %+v, then Explain %+v", r, again)
		}
		for _, n := range notes {
			if n.Field == "" || n.Says == "" || len(n.Value) > maxText {
				t.Errorf("note %+v, want a field and what it says", n)
			}
		}
	})
}

// indexed is lines with its work done beforehand.
func indexed(text string) func(string) string {
	all := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		if was, ok := all[name]; ok {
			value = was + ", " + value
		}
		all[name] = value
	}
	return func(name string) string { return all[strings.ToLower(name)] }
}

// FuzzLookup holds the walk through unchecked JSON within its bounds.
func FuzzLookup(f *testing.F) {
	f.Add(`{"a":[{"b":"c\u0041\ud83d\ude00"},{"d":1.5}]}`, "a.*.d")
	f.Add(`<Error><Code>SlowDown</Code></Error>`, "<Code>")
	f.Add(`[[[[[["x`, "*.*.*.*")
	f.Fuzz(func(t *testing.T, body, path string) {
		if strings.Count(path, "*") > 4 {
			return // ours have three; each may double the work
		}
		if got := lookup([]byte(body), path); len(got) > maxLook {
			t.Errorf("lookup(%q, %q) has %d bytes, want at most %d", body, path, len(got), maxLook)
		}
	})
}

// places are the fields that a dialect looks at.
func places(d *Dialect) (names []string) {
	add := func(all ...string) {
		for _, name := range all {
			if name != "" && !strings.HasPrefix(name, "body ") && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, w := range d.spec.Waits {
		add(w.From)
	}
	if d.spec.Waits == nil {
		add("Retry-After")
	}
	add("RateLimit", "RateLimit-Policy")
	for _, l := range d.spec.Limits {
		add(l.From, l.NameFrom, l.Limit, l.Remaining, l.Used, l.Reset, l.WindowFrom)
	}
	for _, u := range d.spec.Rules {
		add(u.From...)
	}
	return names
}

// header is a field function as a client of net/http has it.
func header(h http.Header) func(string) string {
	return func(name string) string {
		switch name { // canonical, as Header.Get would make it at some cost
		case "RateLimit":
			name = "Ratelimit"
		case "RateLimit-Policy":
			name = "Ratelimit-Policy"
		}
		if v := h[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
}

// plain is the head of an answer that says nothing about limits.
var plain = http.Header{
	"Date": {"Fri, 06 Nov 2026 08:49:37 GMT"}, "Content-Type": {"application/json"}, "Content-Length": {"4711"},
	"Cache-Control": {"no-store"}, "Etag": {`"abc"`}, "Server": {"nginx"}, "Vary": {"Accept"}, "X-Request-Id": {"1"},
}

// TestSilentAnswersCostNothing: most answers say nothing.
func TestSilentAnswersCostNothing(t *testing.T) {
	for _, d := range dialects {
		var r Reading
		field := header(plain)
		if n := testing.AllocsPerRun(100, func() { r = d.Read(200, field, nil, t0) }); n != 0 {
			t.Errorf("%s: reading a silent answer makes %v allocations, want none", d.Name(), n)
		}
		if !reflect.DeepEqual(r, Reading{Signal: Signal{Verdict: pace.Served}}) {
			t.Errorf("%s: a silent answer says %+v, want nothing", d.Name(), r)
		}
	}
}

// TestNamesAreCanonical: http.Header finds such names without making new ones.
func TestNamesAreCanonical(t *testing.T) {
	for _, d := range dialects {
		for _, name := range places(d) {
			if c := textproto.CanonicalMIMEHeaderKey(name); name != c && !strings.HasPrefix(name, "RateLimit") {
				t.Errorf("%s: looks for %s, want %s", d.Name(), name, c)
			}
		}
	}
}

// TestHostileBodies: whatever the body, reading allocates less than it holds.
func TestHostileBodies(t *testing.T) {
	fill := func(s string) []byte { return bytes.Repeat([]byte(s), 4*MaxBody/len(s)) }
	bodies := [][]byte{
		fill("["), fill(`{"error":`), fill(`{"a":{`), fill(`[{"errors":[`), fill("<"), fill("<Code"), fill("\\"), fill(`"`),
		append([]byte(`{"message":"`), fill(`\u0000`)...), append([]byte(`{"errors":[`), fill(`{"x":0},`)...),
		append([]byte(`{"error":{"details":[`), fill(`{"violations":[{}]},`)...), append([]byte(`{`), fill(`"a":1,`)...),
	}
	for _, d := range dialects {
		for i, body := range bodies {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := d.Read(429, lines(""), body, t0)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > MaxBody/4 {
				t.Errorf("%s: body %d of %d bytes makes %d bytes of allocations, want at most %d", d.Name(), i, len(body), n, MaxBody/4)
			}
			checkBounds(t, d.Name(), r)
		}
	}
}

// TestBodyEnds: what stands beyond MaxBody is not seen, what stands before it
// is, even if the body is cut off there.
func TestBodyEnds(t *testing.T) {
	pad := func(n int) []byte { return []byte(`{"pad":"` + strings.Repeat("x", n) + `","retry_after":7,"more`) }
	d := For("discord.com")
	if r := d.Read(429, lines(""), pad(MaxBody-100), t0); !r.After.OK {
		t.Errorf("a wait before the end of what is looked at is not seen")
	}
	if r := d.Read(429, lines(""), pad(MaxBody), t0); r.After.OK {
		t.Errorf("a wait of %v beyond %d bytes is seen", r.After.V, MaxBody)
	}
	if r := d.Read(200, lines(""), pad(10), t0); r.After.OK || d.WantsBody(200) {
		t.Errorf("a wait of %v in the body of 200 is seen, which nobody wants", r.After.V)
	}
}

func BenchmarkRead(b *testing.B) {
	said := http.Header{"Ratelimit": {`"default";r=50;t=30`}, "Ratelimit-Policy": {`"default";q=100;w=60`}, "Date": plain["Date"]}
	triple := http.Header{"X-Ratelimit-Limit": {"5000"}, "X-Ratelimit-Remaining": {"4999"}, "X-Ratelimit-Reset": {"1793958577"}, "X-Ratelimit-Resource": {"core"}, "Date": plain["Date"]}
	for _, bb := range []struct {
		name, dialect string
		h             http.Header
	}{{"silent/general", "general", plain}, {"silent/github", "github", plain}, {"silent/openai", "openai", plain}, {"draft", "general", said}, {"github", "github", triple}} {
		b.Run(bb.name, func(b *testing.B) {
			d, _ := Named(bb.dialect)
			field := header(bb.h)
			b.ReportAllocs()
			for b.Loop() {
				d.Read(200, field, nil, t0)
			}
		})
	}
}
