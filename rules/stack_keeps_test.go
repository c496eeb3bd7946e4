package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/rules"
)

// A source that hangs at the start keeps neither the Overlay out, nor what another
// source has kept.
func TestStackHangs(t *testing.T) {
	dir := t.TempDir()
	shared := &rules.File{Path: filepath.Join(dir, "overlay.json")}
	if _, ok, err := shared.Swap(t.Context(), "", []byte(`{"serial": 3, "deny": "client=bad"}`)); err != nil || !ok {
		t.Fatal(err)
	}
	keep := filepath.Join(dir, "kept.json")
	refreshed(t, &rules.Stack{Sources: []*rules.Source{{Fetch: new(fetched).set(perClient).fetch, Keep: keep}}})
	hang := func(ctx context.Context, _ string) ([]byte, string, error) { <-ctx.Done(); return nil, "", ctx.Err() }
	bubble.Test(t, func(t *testing.T) {
		var looks int
		s := &rules.Stack{Shared: shared, Sources: []*rules.Source{{Fetch: hang}, {Fetch: hang, Keep: keep}}, OnState: func(rules.Status) { looks++ }}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := s.Refresh(ctx); err == nil || limitAt(t, s, "bad", noon) != 0 || limitAt(t, s, "x", noon) != 1 {
			t.Errorf("with sources that hang: %v, limits %d and %d; want the Overlay and the kept rules", err, limitAt(t, s, "bad", noon), limitAt(t, s, "x", noon))
		}
		if st := s.Status(); st.Version != "3" || st.Err != nil || looks != 1 {
			t.Errorf("the status of the Overlay is %+v after %d looks", st, looks)
		}
	})
}

// A change by hand that no longer fits its rule, or has ended, keeps nothing else from
// being changed, nor a start from having the rest.
func TestStackLeavesOut(t *testing.T) {
	const key = `{"version": "%s", "ipv4_prefix": %d, "rules": {"name": "r", "key": "%s", "limits": "1/h"%s}}`
	hour := time.Now().Add(time.Hour)
	twins := `, "overrides": [` + strings.Repeat(`{"key": "10.1.2.3", "limits": "2/h", "until": "2999-01-01T00:00:00Z"}, `, 7) + `{"key": "10.1.2.3", "limits": "2/h"}]`
	for what, x := range map[string]struct {
		before, after string
		override      rules.Override
		left          string
	}{
		"a key that is an address now": {
			fmt.Sprintf(key, "f1", 32, "client", ""), fmt.Sprintf(key, "f2", 32, "address", ""),
			rules.Override{Key: []string{"acme"}},
			`override of rule "r" for acme: "acme" is neither`,
		},
		"larger networks": {
			fmt.Sprintf(key, "f1", 32, "address", ""), fmt.Sprintf(key, "f2", 24, "address", ""),
			rules.Override{Key: []string{"10.1.2.3"}},
			`override of rule "r" for 10.1.2.3: all of 10.1.2.0/24 is one client`,
		},
		"many of one key": {
			fmt.Sprintf(key, "f1", 32, "address", ""), fmt.Sprintf(key, "f2", 32, "address", twins),
			rules.Override{Key: []string{"10.1.2.3"}, Note: rules.Note{Until: hour}},
			`override of rule "r" for 10.1.2.3: more than 8`,
		},
		"one of the file that is written otherwise": {
			fmt.Sprintf(key, "f1", 32, "address", ""), fmt.Sprintf(key, "f2", 32, "address", `, "overrides": [{"key": "10.1.2.3/32", "limits": "2/h"}]`),
			rules.Override{Key: []string{"10.1.2.3"}},
			`override of rule "r" for 10.1.2.3: one of the rule has the same key`,
		},
	} {
		f := new(fetched).set(x.before)
		shared := &rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")}
		s := refreshed(t, f.stack(shared))
		x.override.Limits = []rules.Limit{{Count: 9, Period: time.Hour}}
		if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error {
			o.PutOverride("r", x.override)
			o.PutDeny(rules.Entry{Text: "client=bad"})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f.set(x.after)
		restarted := f.stack(shared)
		for when, s := range map[string]*rules.Stack{"running": s, "restarted": restarted} {
			err := s.Refresh(t.Context())
			_, left := s.Overlay()
			if err != nil || limitAt(t, s, "bad", noon) != 0 || !strings.HasPrefix(s.Live.Load().Version(), "f2") || len(left) != 1 || !strings.HasPrefix(left[0], x.left) {
				t.Errorf("%s, %s: %v, left %q; want the file in use, and %s", what, when, err, left, x.left)
			}
		}
		if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error { o.PutDeny(rules.Entry{Text: "client=b"}); return nil }); err != nil {
			t.Errorf("%s: an edit: %v", what, err)
		}
	}
}

// Where the Overlay would be too long, its log loses the older half, here as in Shared.
func TestStackLog(t *testing.T) {
	o := rules.Overlay{Serial: 1}
	for i := range 200 {
		o.Log = append(o.Log, rules.Change{What: []string{fmt.Sprintf("change %d %s", i, strings.Repeat("x", 5000))}, Note: noted})
	}
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	s := new(fetched).set(perClient).stack(&rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")})
	if _, ok, err := s.Shared.Swap(t.Context(), "", data); err != nil || !ok {
		t.Fatal(err)
	}
	refreshed(t, s)
	if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error {
		for i := range 400 {
			o.Deny = append(o.Deny, rules.Entry{Text: fmt.Sprint("client=", i), Note: rules.Note{Why: strings.Repeat("x", 150)}})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	here, _ := s.Overlay()
	_, data, err = s.Shared.Load(t.Context())
	if e := json.Unmarshal(data, &o); err != nil || e != nil || len(o.Log) != 100 || len(here.Log) != 100 || !strings.HasPrefix(o.Log[0].What[0], "change 101 ") {
		t.Errorf("%v, %v: the log has %d changes, and %d here; want the latest 100", err, e, len(o.Log), len(here.Log))
	}
}

// What could not be kept is kept by a later look.
func TestStackKeepsLater(t *testing.T) {
	dir := t.TempDir()
	s := new(fetched).set(perClient).stack(&rules.File{Path: filepath.Join(dir, "overlay.json")})
	s.Keep = filepath.Join(dir, "later", "kept.json")
	refreshed(t, s)
	if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error { o.Kill.On = true; return nil }); err != nil || s.Status().KeepErr == nil {
		t.Fatalf("Edit: %v, status %+v; want a KeepErr", err, s.Status())
	}
	if err := os.Mkdir(filepath.Join(dir, "later"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Look(t.Context()); err != nil || s.Status().KeepErr != nil {
		t.Errorf("Look: %v, status %+v", err, s.Status())
	}
	if data, err := os.ReadFile(s.Keep); err != nil || !strings.Contains(string(data), `"kill":true`) {
		t.Errorf("kept is %s, %v", data, err)
	}
}

// An Overlay that Shared has lost while no instance ran is in use again at the start, from
// what is kept, and written again.
func TestStackLostBetween(t *testing.T) {
	dir := t.TempDir()
	shared := &rules.File{Path: filepath.Join(dir, "overlay.json")}
	f := new(fetched).set(perClient)
	begin := func() *rules.Stack {
		s := f.stack(shared)
		s.Keep = filepath.Join(dir, "kept.json")
		return refreshed(t, s)
	}
	deny := func(s *rules.Stack, name string) {
		t.Helper()
		if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error { o.PutDeny(rules.Entry{Text: "client=" + name}); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	deny(begin(), "bad")
	if err := os.Remove(shared.Path); err != nil {
		t.Fatal(err)
	}
	again := begin()
	if st := again.Status(); limitAt(t, again, "bad", noon) != 0 || st.Version != "1" || st.Err != nil {
		t.Errorf("after a start without the Overlay: limit %d, status %+v; want what is kept", limitAt(t, again, "bad", noon), st)
	}
	if _, data, err := shared.Load(t.Context()); err != nil || !strings.Contains(string(data), "client=bad") {
		t.Errorf("shared is %s, %v; want what is kept", data, err)
	}
	deny(again, "worse")
	if err := errors.Join(os.Remove(shared.Path), os.WriteFile(filepath.Join(dir, "kept.json"), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	damaged := f.stack(shared)
	damaged.Keep = filepath.Join(dir, "kept.json")
	if err := damaged.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "overlay: there is none; and the kept "+damaged.Keep) {
		t.Errorf("with what is kept damaged: %v, want that it is", err)
	}
	if o, _ := again.Overlay(); o.Serial != 2 || len(o.Deny) != 2 {
		t.Errorf("after another change: %+v", o)
	}
}

// Entries that an earlier release took, and this one refuses, keep nothing else of the
// Overlay from being in use; new ones are refused.
func TestStackOldEntries(t *testing.T) {
	shared := &rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")}
	if _, ok, err := shared.Swap(t.Context(), "", []byte(`{"serial": 3, "deny": ["method=get", "client=bad"], "allow": ["path:1=/a"]}`)); err != nil || !ok {
		t.Fatal(err)
	}
	s := refreshed(t, new(fetched).set(perClient).stack(shared))
	want := []string{"deny of method=get: must be a method in capitals, as in GET", "allow of path:1=/a: must be one segment of a path, without '/'"}
	if _, left := s.Overlay(); limitAt(t, s, "bad", noon) != 0 || !slices.Equal(left, want) {
		t.Errorf("limit %d, left out %q; want the block in use, and %q", limitAt(t, s, "bad", noon), left, want)
	}
	deny := func(text string) error {
		return s.Edit(t.Context(), noted, func(o *rules.Overlay) error { o.PutDeny(rules.Entry{Text: text}); return nil })
	}
	if err := deny("client=worse"); err != nil || limitAt(t, s, "worse", noon) != 0 {
		t.Errorf("another entry: %v", err)
	}
	if err := deny("method=put"); !errors.As(err, new(*rules.Error)) {
		t.Errorf("another entry that cannot be read: %v, want an *Error", err)
	}
}

// What has ended counts for nothing, not even for what may stand in a list.
func TestStackEnded(t *testing.T) {
	f := new(fetched).set(perClient)
	s := f.stack(&rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")})
	ended := rules.Note{Until: time.Now().Add(-time.Hour).UTC()}
	o := rules.Overlay{Serial: 1, Deny: []rules.Entry{{Text: "client=x"}}}
	for i := range 101 {
		o.Deny = append(o.Deny, rules.Entry{Text: fmt.Sprintf("client=*%d", i), Note: ended})
	}
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Shared.Swap(t.Context(), "", data); err != nil || !ok {
		t.Fatal(err)
	}
	if err := s.Refresh(t.Context()); err != nil || limitAt(t, s, "x", noon) != 0 {
		t.Errorf("with a hundred entries that have ended: %v; want the others in use", err)
	}
}

// A change by hand that ends by the clock of one instance is not lost to the others, whose
// clocks are some minutes behind, when that instance makes another change.
func TestStackClocks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		shared := &rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")}
		f := new(fetched).set(perClient)
		ahead := refreshed(t, f.stack(shared))
		edit := func(change func(*rules.Overlay)) {
			t.Helper()
			if err := ahead.Edit(t.Context(), noted, func(o *rules.Overlay) error { change(o); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		until := time.Now().Add(10 * time.Minute)
		edit(func(o *rules.Overlay) {
			o.PutOverride("r", rules.Override{Key: []string{"acme"}, Limits: []rules.Limit{{Count: 9, Period: time.Hour}}, Note: rules.Note{Until: until}})
		})
		for _, c := range []struct {
			what  string
			later time.Duration // since the raise, by the clock that is ahead
			kept  int           // raises that the instances share
			log   string
		}{
			{"before its end", 9 * time.Minute, 1, "client=bad-0: added"},
			{"after its end by a clock", 14 * time.Minute, 1, "client=bad-1: added"},
			{"after its end by all", 15 * time.Minute, 0, "client=bad-2: added"},
			{"long after", time.Hour, 0, "client=bad-3: added"},
		} {
			time.Sleep(time.Until(until.Add(c.later - 10*time.Minute)))
			o, _ := ahead.Overlay()
			edit(func(o *rules.Overlay) { o.PutDeny(rules.Entry{Text: fmt.Sprintf("client=bad-%d", len(o.Deny))}) })
			var all rules.Overlay
			if _, data, err := shared.Load(t.Context()); err != nil || json.Unmarshal(data, &all) != nil || len(all.Overrides["r"]) != c.kept {
				t.Errorf("%s: %v, the instances share %s; want %d raises", c.what, err, data, c.kept)
			}
			if is := limitAt(t, ahead, "acme", time.Now()) == 9; is != (c.later < 10*time.Minute) {
				t.Errorf("%s: the raise holds where the clock is ahead: %t", c.what, is)
			}
			if o, _ = ahead.Overlay(); len(o.Log) == 0 || !strings.Contains(strings.Join(o.Log[len(o.Log)-1].What, "; "), c.log) || len(o.Log[len(o.Log)-1].What) != 1 {
				t.Errorf("%s: the log ends with %q, want only that %s", c.what, o.Log[len(o.Log)-1].What, c.log)
			}
		}
	})
}

// A raise ends at its time in an instance that starts again meanwhile, also where it was
// away at the end.
func TestStackRestarts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		shared := &rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")}
		f := new(fetched).set(perClient)
		until := time.Now().Add(10 * time.Minute)
		if err := refreshed(t, f.stack(shared)).Edit(t.Context(), noted, func(o *rules.Overlay) error {
			o.PutOverride("r", rules.Override{Key: []string{"acme"}, Limits: []rules.Limit{{Count: 9, Period: time.Hour}}, Note: rules.Note{Until: until}})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Minute)
		again := refreshed(t, f.stack(shared))
		for _, c := range []struct {
			now   time.Time
			limit int64
		}{{until.Add(-1), 9}, {until, 1}} {
			if got := limitAt(t, again, "acme", c.now); got != c.limit {
				t.Errorf("started before the end, %v from it the limit is %d, want %d", c.now.Sub(until), got, c.limit)
			}
		}
		time.Sleep(2 * time.Minute)
		if got := limitAt(t, refreshed(t, f.stack(shared)), "acme", time.Now()); got != 1 {
			t.Errorf("started after the end, the limit is %d, want 1", got)
		}
	})
}

// A File without a Path is no document that is not there yet: Refresh and Edit say so.
func TestFileWithoutPath(t *testing.T) {
	s := &rules.Stack{Shared: new(rules.File)}
	const want = "the File has no Path"
	if err := s.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Refresh = %v, want %q in it", err, want)
	}
	if _, _, err := new(rules.File).Swap(t.Context(), "", nil); err == nil || err.Error() != want {
		t.Errorf("Swap = %v, want %q", err, want)
	}
}
