package rules_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

// The sources count in their order, and a bad version of one is refused whole.
func TestStackSources(t *testing.T) {
	file, url := new(fetched).set(perClient), new(fetched).set("")
	var swapped []string
	s := &rules.Stack{
		Sources: []*rules.Source{{Fetch: file.fetch}, {Fetch: url.fetch}},
		OnSwap:  func(v rules.Version) { swapped = append(swapped, v.Name) },
	}
	if err := s.Refresh(t.Context()); err == nil || limitAt(t, s, "x", noon) != 1 {
		t.Fatalf("without the second source: %v", err)
	}
	url.set(`{"version": "u1", "serial": 5, "rules": {"name": "r", "key": "client", "limits": "2/h"}}`)
	refreshed(t, s)
	if got := limitAt(t, s, "x", noon); got != 2 || s.Live.Load().Version() != "f1.u1" {
		t.Errorf("the limit is %d of %s, want 2 of the second source", got, s.Live.Load().Version())
	}
	for text, want := range map[string]string{
		`{"version": "u2", "rules": {"name": "r", "key": "client", "limits": "3"}}`:                 "rules: 1:",
		`{"version": "u2", "serial": 4, "rules": {"name": "r", "key": "client", "limits": "3/h"}}`:  "serial 4 is older than 5",
		`{"version": "u2", "rules": [], "deny": [` + strings.Repeat(`"client=*", `, 99) + `"a=b"]}`: "rules: 1:",
		"": "away",
	} {
		url.set(text)
		if err := s.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), want) || limitAt(t, s, "x", noon) != 2 {
			t.Errorf("%.60s: %v, want %s and the old rules", text, err, want)
		}
	}
	// Each is good, and both together are not.
	stars := `{"version": "%s", "rules": [], "deny": [` + strings.Repeat(`"client=*x", `, 59) + `"client=*y"]}`
	url.set(fmt.Sprintf(stars, "u3"))
	refreshed(t, s)
	file.set(fmt.Sprintf(stars, "f3"))
	if err := s.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 100 entries with '*' (of the sources and the overlay together)") {
		t.Errorf("two sources that are too much together: %v", err)
	}
	url.set(`{"version": "u4", "rules": {"name": "r", "key": "client", "limits": "4/h"}}`)
	if err := s.Sources[1].Refresh(t.Context()); err != nil || s.Live.Load().Version() != "f1.u4" {
		t.Errorf("one source alone: %v, version %s; want f1.u4, without what was refused", err, s.Live.Load().Version())
	}
	if st := s.Sources[0].Status(); st.Version != "f1" || st.Err == nil || st.Failures != 1 {
		t.Errorf("the status of the source that was refused is %+v", st)
	}
	file.set(perClient)
	both := &rules.Stack{Sources: []*rules.Source{{Fetch: file.fetch}, {Fetch: url.fetch}}, OnSwap: s.OnSwap}
	refreshed(t, both) // nothing is in use before each source was asked
	if want := []string{"f1", "f1.u1", "f1.u3", "f1.u4", "f1.u4"}; !slices.Equal(swapped, want) {
		t.Errorf("put into use %q, want %q", swapped, want)
	}
}

// A source that comes back with an older version is refused, after a restart too.
func TestSourceSerial(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "kept.json")
	f := new(fetched)
	version := func(serial int) {
		f.set(fmt.Sprintf(`{"version": "v%d", "serial": %d, "rules": []}`, serial, serial))
	}
	start := func() *rules.Source { return &rules.Source{Fetch: f.fetch, Keep: keep} }
	s := start()
	for _, x := range []struct {
		serial    int
		restarted bool
		want      string
		err       string
	}{
		{7, false, "v7", ""},
		{7, false, "v7", ""},
		{6, false, "v7", "serial 6 is older than 7, which is in use"},
		{8, false, "v8", ""},
		{7, true, "v8", "serial 7 is older than 8, which is kept"},
		{7, false, "v8", "serial 7 is older than 8, which is in use"},
		{8, true, "v8", ""},
		{0, false, "v0", ""},
		{7, false, "v0", "serial 7 is older than 8"},
		{9, true, "v9", ""},
	} {
		if version(x.serial); x.restarted {
			s = start()
		}
		err := s.Refresh(t.Context())
		text := fmt.Sprint(err)
		if (err == nil) != (x.err == "") || !strings.Contains(text, x.err) && err != nil || s.Live.Load().Version() != x.want {
			t.Errorf("serial %d, restarted %t: %v, version %s; want %s, %s", x.serial, x.restarted, err, s.Live.Load().Version(), x.want, x.err)
		}
	}
}

// Versions are kept, compared, and brought back.
func TestStackVersions(t *testing.T) {
	file := new(fetched)
	s := file.set(perClient).stack(&rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")})
	s.MaxVersions = 3
	for i := range 5 {
		file.set(fmt.Sprintf(`{"version": "v%d", "rules": {"name": "r", "key": "client", "limits": "%d/h"}}`, i, i+1))
		refreshed(t, s)
	}
	var names []string
	for _, v := range s.Versions() {
		names = append(names, v.Name)
	}
	last := s.Versions()[2]
	if want := []string{"v2", "v3", "v4"}; !slices.Equal(names, want) ||
		!slices.Equal(last.Changes, []string{`version: "v4", was "v3"`, "rule r: limits: 5/h, was 4/h"}) || last.Set().Version != "v4" {
		t.Errorf("versions %q, the last one %+v; want %q", names, last, want)
	}
	if err := s.BringBack(t.Context(), "v9", noted); err == nil || !strings.Contains(err.Error(), `no version "v9" is kept; there are ["v4" "v3" "v2"]`) {
		t.Errorf("BringBack of none: %v", err)
	}
	block := func(until time.Time) {
		t.Helper()
		if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error {
			o.PutDeny(rules.Entry{Text: "client=bad", Note: rules.Note{Until: until}})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	block(time.Time{})
	if v := s.Versions()[2]; v.Name != "v4.1" || limitAt(t, s, "bad", noon) != 0 {
		t.Errorf("after a change by hand it is version %s, want v4.1", v.Name)
	}
	if err := s.BringBack(t.Context(), "v4.1", noted); err != nil || limitAt(t, s, "bad", noon) != 0 {
		t.Errorf("BringBack: %v; want what was blocked by hand to stay so", err)
	}
	block(time.Unix(1, 0))
	if limitAt(t, s, "bad", noon) == 0 {
		t.Error("what is no longer blocked by hand is still refused, by the version that was brought back")
	}
	s.MaxVersions = 9
	file.set(`{"version": "v2", "rules": {"name": "r", "key": "client", "limits": "3/h"}}`)
	if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error { o.Set = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	refreshed(t, s)
	file.set(`{"version": "v4", "rules": {"name": "r", "key": "client", "limits": "5/h"}}`)
	refreshed(t, s)
	if err := s.BringBack(t.Context(), "v2", noted); err != nil || limitAt(t, s, "x", noon) != 3 {
		t.Fatalf("BringBack: %v, the limit is %d, want 3", err, limitAt(t, s, "x", noon))
	}
	brought := s.Live.Load().Version()
	file.set(`{"version": "v5", "rules": {"name": "r", "key": "client", "limits": "6/h"}}`)
	refreshed(t, s)
	if got := limitAt(t, s, "x", noon); got != 3 {
		t.Errorf("a new version of the file: the limit is %d, want that brought back, 3", got)
	}
	unset := func(o *rules.Overlay) error { o.Set = nil; return nil }
	if err := s.Edit(t.Context(), noted, unset); err != nil || limitAt(t, s, "x", noon) != 6 {
		t.Errorf("Edit: %v, the limit is %d, want the file's, 6", err, limitAt(t, s, "x", noon))
	}
	if err := s.BringBack(t.Context(), brought, noted); err != nil || limitAt(t, s, "x", noon) != 3 {
		t.Errorf("BringBack of %s, itself brought back: %v, the limit is %d, want 3", brought, err, limitAt(t, s, "x", noon))
	}
}

// Overrides by hand of a rule that the rules do not have which are brought back, or count
// again, are left out: they keep nobody from either.
func TestStackBringsBackWithoutRule(t *testing.T) {
	file := new(fetched).set(`{"version": "v1", "rules": {"name": "other", "limits": "9/h"}}`)
	s := refreshed(t, file.stack(&rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")}))
	file.set(`{"version": "v2", "rules": {"name": "r", "key": "client", "limits": "3/h"}}`)
	refreshed(t, s)
	raise := func(o *rules.Overlay) error {
		o.PutOverride("r", rules.Override{Key: []string{"acme"}, Limits: []rules.Limit{{Count: 100, Period: time.Hour}}})
		return nil
	}
	if err := s.Edit(t.Context(), noted, raise); err != nil {
		t.Fatal(err)
	}
	if err := s.BringBack(t.Context(), "v1", noted); err != nil {
		t.Errorf("BringBack of rules without that of an override: %v", err)
	}
	if _, left := s.Overlay(); len(left) != 1 || !strings.Contains(left[0], "there is no such rule") {
		t.Errorf("left out: %q, want the override", left)
	}
	another := func(o *rules.Overlay) error {
		o.PutOverride("r", rules.Override{Key: []string{"other"}, Limits: []rules.Limit{{Count: 5, Period: time.Hour}}})
		return nil
	}
	if flaw := (*rules.Error)(nil); !errors.As(s.Edit(t.Context(), noted, another), &flaw) {
		t.Error("another override of the rule that is not there is accepted")
	}
	if err := s.BringBack(t.Context(), "v2", noted); err != nil || limitAt(t, s, "acme", noon) != 100 {
		t.Errorf("BringBack: %v, the limit is %d, want the override's, 100", err, limitAt(t, s, "acme", noon))
	}
	file.set(`{"version": "v3", "rules": {"name": "other", "limits": "9/h"}}`)
	refreshed(t, s)
	if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error { o.Set = nil; return nil }); err != nil {
		t.Errorf("the end of what was brought back, before rules without that of an override: %v", err)
	}
}

// A file that changes and keeps its version: each of its versions has a name, and
// that is brought back which is named.
func TestStackVersionKept(t *testing.T) {
	file := new(fetched)
	s := file.stack(&rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")})
	for i := range 3 {
		file.set(fmt.Sprintf(`{"version": "v1", "rules": {"name": "r", "key": "client", "limits": "%d/h"}}`, i+1))
		refreshed(t, s)
	}
	var names []string
	for _, v := range s.Versions() {
		names = append(names, v.Name)
	}
	if names[0] != "v1" || len(names[1]) != len("v1-123456789abc") || !strings.HasPrefix(names[1], "v1-") || names[1] == names[2] {
		t.Fatalf("the versions are named %q", names)
	}
	for i, name := range names {
		if err := s.BringBack(t.Context(), name, noted); err != nil || limitAt(t, s, "x", noon) != int64(i+1) {
			t.Errorf("BringBack of %s: %v, the limit is %d, want %d", name, err, limitAt(t, s, "x", noon), i+1)
		}
	}
}

// counted is a Shared in this process that takes long for each read.
type counted struct {
	mu    sync.Mutex
	data  []byte
	n     int
	loads int
	takes time.Duration
}

func (c *counted) Load(context.Context) (string, []byte, error) {
	time.Sleep(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads++
	return fmt.Sprint(c.n), c.data, nil
}

func (c *counted) Swap(_ context.Context, old string, data []byte) (string, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old != fmt.Sprint(c.n) {
		return "", false, nil
	}
	c.n++
	c.data = data
	return fmt.Sprint(c.n), true, nil
}

func (c *counted) reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loads
}

// What one instance writes is in use there at once and in another within a second,
// for 1.25 reads a second of each, whenever it is written; Run ends with its context.
func TestStackRun(t *testing.T) {
	const edits, instances = 50, 2
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		shared := &counted{takes: 100 * time.Millisecond}
		var all [instances]*rules.Stack
		var running sync.WaitGroup
		for i := range all {
			all[i] = new(fetched).set(perClient).stack(shared)
			running.Go(func() { all[i].Run(ctx) })
		}
		time.Sleep(time.Second)
		read, edited, began := shared.reads(), 0, time.Now()
		for i := range edits {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond) // of all phases of the looks
			name := fmt.Sprint("client=", i)
			if err := all[0].Edit(t.Context(), noted, func(o *rules.Overlay) error {
				o.Deny = []rules.Entry{{Text: name}}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			edited++
			for j, after := range []time.Duration{0, time.Second} {
				time.Sleep(after)
				synctest.Wait()
				if o, _ := all[j].Overlay(); len(o.Deny) != 1 || o.Deny[0].Text != name {
					t.Fatalf("%v after edit %d instance %d has %+v; %v", after, i, j, o.Deny, all[j].Status().Err)
				}
			}
		}
		passed := time.Since(began).Seconds()
		if each := float64(shared.reads()-read-edited) / passed / instances; each > 1.25 {
			t.Errorf("%.2f reads a second of each instance, want at most 1.25", each)
		}
		cancel()
		running.Wait()
	})
}

// TestStackReloads: a thousand changes of two sources and the Overlay under load.
// Every request is decided, by rules of one version.
func TestStackReloads(t *testing.T) {
	const changes = 1_000
	var n atomic.Int64
	version := func(name string) rules.Fetch {
		return func(context.Context, string) ([]byte, string, error) {
			i := n.Load()
			return fmt.Appendf(nil, `{"version": "v%d", "rules": {"name": "%s.v%d", "key": "client", "limits": "1000000/s"}}`, i, name, i), "", nil
		}
	}
	s := &rules.Stack{Sources: []*rules.Source{{Fetch: version("a")}}, Shared: &rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")}}
	refreshed(t, s)
	var over atomic.Bool
	var decided atomic.Int64
	var callers sync.WaitGroup
	defer callers.Wait()
	defer over.Store(true)
	store := new(memory.Store)
	for i := range 4 {
		callers.Go(func() {
			for !over.Load() {
				a, err := s.Live.Load().Decide(context.Background(), store, rules.Request{Client: fmt.Sprint(i)})
				_, rule, _ := strings.Cut(a.Rule, ".")
				of, _, _ := strings.Cut(a.Version, ".")
				if err != nil || !a.OK || rule != of {
					t.Errorf("Decide = %+v, %v; want it to pass by a rule of its version", a, err)
					return
				}
				decided.Add(1)
			}
		})
	}
	for i := range changes {
		n.Add(1)
		if err := s.Sources[0].Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error {
				o.PutDeny(rules.Entry{Text: fmt.Sprint("client=bad", i)})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if decided.Load() < 100 {
		t.Errorf("%d were decided", decided.Load())
	}
}
