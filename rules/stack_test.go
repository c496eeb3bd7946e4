package rules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttletest"
)

// fetched is a source whose text a test sets.
type fetched struct{ text atomic.Value }

func (f *fetched) set(text string) *fetched { f.text.Store(text); return f }

func (f *fetched) fetch(context.Context, string) ([]byte, string, error) {
	text := f.text.Load().(string)
	if text == "" {
		return nil, "", errors.New("away")
	}
	return []byte(text), "", nil
}

// noted is a Note of a test.
var noted = rules.Note{Why: "a test", By: "jane"}

func (f *fetched) stack(shared rules.Shared) *rules.Stack {
	return &rules.Stack{Sources: []*rules.Source{{Fetch: f.fetch}}, Shared: shared}
}

func refreshed(t *testing.T, s *rules.Stack) *rules.Stack {
	t.Helper()
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// limitAt is the limit by which a client is decided.
func limitAt(t *testing.T, s *rules.Stack, client string, now time.Time) int64 {
	t.Helper()
	return ask(t, s.Live.Load(), newBook(), rules.Request{Client: client, Now: now}).Limit.Count
}

const perClient = `{"version": "f1", "rules": {"name": "r", "key": "client", "limits": "1/h"}}`

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overlay.json")
	throttletest.TestDocument(t, &rules.File{Path: path}, &rules.File{Path: path})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want only its owner to read it", info.Mode(), err)
	}
	held := rules.File{Path: filepath.Join(t.TempDir(), "nowhere", "x")}
	if _, _, err := held.Swap(t.Context(), "", []byte("x")); err == nil {
		t.Error("Swap in a folder that is not there has no error")
	}
}

// A raise that one instance writes counts in the other until it ends, and both keep
// it over a restart.
func TestStackShares(t *testing.T) {
	shared := &rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")}
	f := new(fetched).set(perClient)
	a, b := refreshed(t, f.stack(shared)), refreshed(t, f.stack(shared))
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	err := a.Edit(t.Context(), noted, func(o *rules.Overlay) error {
		o.PutOverride("r", rules.Override{Key: []string{"acme"}, Limits: []rules.Limit{{Count: 9, Period: time.Hour}}, Note: rules.Note{Until: until}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted := refreshed(t, f.stack(shared))
	for name, s := range map[string]*rules.Stack{"that wrote it": a, "other": b, "restarted": restarted} {
		if before, after := limitAt(t, s, "acme", until.Add(-1)), limitAt(t, s, "acme", until); before != 9 || after != 1 {
			t.Errorf("the instance %s: limits %d and %d, want 9 and, from its end on, 1", name, before, after)
		}
		o, left := s.Overlay()
		if len(o.Log) != 1 || o.Log[0].Why != "a test" || o.Log[0].By != "jane" || o.Log[0].At.IsZero() || left != nil ||
			!slices.Equal(o.Log[0].What, []string{"rule r: override for acme: added, limits 9/h until " + until.Format(time.RFC3339)}) {
			t.Errorf("the instance %s: log %+v, left %q", name, o.Log, left)
		}
		if st := s.Status(); st.Version != "1" || st.Err != nil || st.Swaps != 1 {
			t.Errorf("the instance %s: status %+v", name, st)
		}
	}
	bad := func(what, want string, change func(o *rules.Overlay)) {
		t.Helper()
		err := a.Edit(t.Context(), noted, func(o *rules.Overlay) error { change(o); return nil })
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
		if !errors.As(err, new(*rules.Error)) { // by which a caller knows that nothing was written
			t.Errorf("%s: %v is no *rules.Error", what, err)
		}
	}
	bad("an override of no rule", `there is no such rule`, func(o *rules.Overlay) {
		o.PutOverride("x", rules.Override{Key: []string{"a"}, InFlight: 1})
	})
	bad("a bad entry", `"somebody" is neither an address nor a network`, func(o *rules.Overlay) { o.PutDeny(rules.Entry{Text: "somebody"}) })
	bad("a large one", `longer than 1048576 bytes`, func(o *rules.Overlay) {
		for i := range 5000 {
			o.Deny = append(o.Deny, rules.Entry{Text: fmt.Sprint("client=", i), Note: rules.Note{Why: strings.Repeat("x", 250)}})
		}
	})
	if o, _ := a.Overlay(); o.Serial != 1 {
		t.Errorf("after changes that were refused it has the serial %d, want 1", o.Serial)
	}
}

// Many edits at once, by several instances: none is lost.
func TestStackEdits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overlay.json")
	var all sync.WaitGroup
	for n := range 3 {
		s := refreshed(t, new(fetched).set(perClient).stack(&rules.File{Path: path}))
		for i := range 4 {
			all.Go(func() {
				err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error {
					o.PutDeny(rules.Entry{Text: fmt.Sprintf("client=%d-%d", n, i)})
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	last := refreshed(t, new(fetched).set(perClient).stack(&rules.File{Path: path}))
	if o, _ := last.Overlay(); len(o.Deny) != 12 || o.Serial != 12 || len(o.Log) != 12 {
		t.Errorf("%d entries, serial %d and %d lines of log after 12 edits", len(o.Deny), o.Serial, len(o.Log))
	}
}

// A document that is lost, or comes back older, is written again; a bad one is
// refused; one that is away at the start is replaced by the kept one.
func TestStackLoses(t *testing.T) {
	dir := t.TempDir()
	path, keep := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "kept.json")
	s := new(fetched).set(perClient).stack(&rules.File{Path: path})
	s.Keep = keep
	refreshed(t, s)
	block := func(client string) {
		t.Helper()
		if err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error {
			o.PutDeny(rules.Entry{Text: "client=" + client})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		data, _ := os.ReadFile(path)
		return string(data)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block("a")
	older := read()
	block("b")
	latest := read()
	for what, text := range map[string]string{"gone": "", "older": older} {
		write(text)
		if text == "" {
			_ = os.Remove(path)
		}
		if err := s.Look(t.Context()); err != nil || read() != latest {
			t.Errorf("%s: %v, and it is %q; want it written again", what, err, read())
		}
	}
	for _, bad := range []string{`{"serial": 9, "deni": []}`, `{"serial": 9`, `{"serial": 9, "deny": "somebody"}`} {
		write(bad)
		if err := s.Look(t.Context()); err == nil || s.Status().Err == nil || limitAt(t, s, "b", noon) != 0 {
			t.Errorf("%s: %v; want it refused, and the old one in use", bad, err)
		}
		err := s.Edit(t.Context(), noted, func(o *rules.Overlay) error { o.PutDeny(rules.Entry{Text: "client=c"}); return nil })
		if err == nil || errors.As(err, new(*rules.Error)) || read() != bad {
			t.Errorf("%s: an edit: %v, and it is %q; want an error that does not blame the change", bad, err, read())
		}
	}
	again := new(fetched).set(perClient).stack(&rules.File{Path: path})
	again.Keep = keep
	if err := again.Refresh(t.Context()); err == nil || limitAt(t, again, "b", noon) != 0 || again.Status().From != rules.Kept {
		t.Errorf("a start without it: %v, status %+v; want the kept one", err, again.Status())
	}
	_ = os.Remove(path) // and lost, as by a store without its data
	if err := again.Look(t.Context()); err != nil || read() != latest {
		t.Errorf("after a start with the kept one: %v, and it is %q; want it written again", err, read())
	}
}
