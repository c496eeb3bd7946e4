package rules_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/rules"
)

func versionOf(name string) []byte {
	return []byte(`{"version": "` + name + `", "rules": [{"name": "r", "limits": "1/s"}]}`)
}

// origin is a source that a test moves.
type origin struct {
	data []byte
	tag  string
	err  error
	have []string // what it was asked with
}

func (o *origin) fetch(_ context.Context, have string) ([]byte, string, error) {
	o.have = append(o.have, have)
	if o.err == nil && have != "" && have == o.tag {
		return nil, "", nil
	}
	return o.data, o.tag, o.err
}

func TestSource(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := &origin{data: versionOf("1"), tag: "a"}
		s := rules.Source{Fetch: o.fetch}
		began := time.Now()
		check := func(what string, err error, want string, wantErr string, refreshes, swaps, failures int64, age time.Duration) {
			t.Helper()
			st := s.Status()
			if s.Live.Load().Version() != want || st.Version != want || st.Refreshes != refreshes || st.Swaps != swaps || st.Failures != failures || st.Age(time.Now()) != age {
				t.Errorf("%s: version %q, status %+v, age %v; want %s, %d refreshes, %d swaps, %d failures, age %v", what, s.Live.Load().Version(), st, st.Age(time.Now()), want, refreshes, swaps, failures, age)
			}
			if (err == nil) != (wantErr == "") || err != nil && (!strings.Contains(err.Error(), wantErr) || st.Err == nil || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s: Refresh = %v, want %q", what, err, wantErr)
			}
		}
		check("before", nil, "", "", 0, 0, 0, 0)
		check("first", s.Refresh(t.Context()), "1", "", 1, 1, 0, 0)
		first := s.Live.Load()
		time.Sleep(time.Minute)
		check("same tag", s.Refresh(t.Context()), "1", "", 2, 1, 0, 0)
		o.tag, o.data = "b", append(versionOf("1"), ' ', '\n')
		check("same rules, other text", s.Refresh(t.Context()), "1", "", 3, 1, 0, 0)
		if s.Live.Load() != first || !s.Status().Since.Equal(began) {
			t.Errorf("an unchanged version was swapped, or is in use since %v, want %v", s.Status().Since, began)
		}
		time.Sleep(time.Minute)
		o.tag, o.data = "c", []byte("{\"rules\": [\n{\"name\": 3}]}")
		check("bad", s.Refresh(t.Context()), "1", "rules: 2:10: rules[0].name: must be text", 4, 1, 1, time.Minute)
		check("still bad, though it has a tag", s.Refresh(t.Context()), "1", "2:10", 5, 1, 2, time.Minute)
		o.err = errors.New("away\nfor long")
		check("away", s.Refresh(t.Context()), "1", "rules: away for long", 6, 1, 3, time.Minute)
		if s.Live.Load() != first {
			t.Error("the version in use changed while there was no good one")
		}
		o.err, o.data = nil, versionOf("2")
		check("back", s.Refresh(t.Context()), "2", "", 7, 2, 3, 0)
		if got, want := strings.Join(o.have, ","), ",a,a,b,b,b,b"; got != want {
			t.Errorf("asked with the tags %q, want %q: that of the last good version", got, want)
		}
	})
}

func TestSourceSaysNothingNew(t *testing.T) {
	s := rules.Source{Fetch: func(context.Context, string) ([]byte, string, error) { return nil, "", nil }}
	if err := s.Refresh(t.Context()); err == nil || s.Status().Failures != 1 {
		t.Errorf("Refresh of a source that has nothing new, at first = %v, want an error", err)
	}
	if err := new(rules.Source).Refresh(t.Context()); err == nil {
		t.Error("Refresh without Fetch = nil, want an error")
	}
}

// TestKept: while the source is away, the last good version serves, at the
// next start too, and the status says so.
func TestKept(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "rules.json")
	o := &origin{data: versionOf("1"), tag: "a"}
	first := rules.Source{Fetch: o.fetch, Keep: keep}
	if err := first.Refresh(t.Context()); err != nil || first.Status().From != rules.Fetched || first.Status().KeepErr != nil {
		t.Fatalf("Refresh = %v, status %+v", err, first.Status())
	}
	info, err := os.Stat(keep)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("kept file: %v, mode %v, want 0600", err, info.Mode())
	}
	o.data, o.tag = []byte(`{"rules": [{}]}`), "b" // bad versions are not kept
	if err := first.Refresh(t.Context()); err == nil {
		t.Fatal("Refresh with bad rules = nil")
	}

	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(keep, long, long); err != nil {
		t.Fatal(err)
	}
	o.err = errors.New("away")
	second := rules.Source{Fetch: o.fetch, Keep: keep}
	for n := range int64(2) {
		err = second.Refresh(t.Context())
		st := second.Status()
		age := st.Age(time.Now())
		if !errors.Is(err, o.err) || second.Live.Load().Version() != "1" || st.From != rules.Kept || st.Version != "1" || st.Failures != n+1 || st.Swaps != 1 || age < time.Hour || age > 2*time.Hour {
			t.Errorf("start while away: Refresh = %v, status %+v, age %v; want version 1 from the file, an hour old", err, st, age)
		}
	}
	o.err, o.data = nil, versionOf("1")
	if err := second.Refresh(t.Context()); err != nil || second.Status().From != rules.Fetched || second.Status().Swaps != 1 {
		t.Errorf("back with the same: Refresh = %v, status %+v; want it from the source, without a swap", err, second.Status())
	}
	o.data, o.tag = versionOf("2"), "c"
	if err := second.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.err = errors.New("away")
	third := rules.Source{Fetch: o.fetch, Keep: keep}
	if third.Refresh(t.Context()); third.Live.Load().Version() != "2" {
		t.Errorf("the next start serves %q, want 2", third.Live.Load().Version())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(keep), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestKeptIsBadOrMissing(t *testing.T) {
	away := &origin{err: errors.New("away")}
	missing := rules.Source{Fetch: away.fetch, Keep: filepath.Join(t.TempDir(), "none")}
	if err := missing.Refresh(t.Context()); !errors.Is(err, away.err) || !errors.Is(err, os.ErrNotExist) || missing.Live.Load() != nil {
		t.Errorf("Refresh with neither = %v, want both errors and no rules", err)
	}
	keep := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(keep, []byte("{\n?"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := rules.Source{Fetch: away.fetch, Keep: keep}
	if err := bad.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "2:1: not JSON") || bad.Status().Version != "" {
		t.Errorf("Refresh with a bad kept file = %v, want its place", err)
	}
}

// TestCannotKeep: what cannot be kept is used all the same, and keeping it is
// tried again.
func TestCannotKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	o := &origin{data: versionOf("1"), tag: "a"}
	s := rules.Source{Fetch: o.fetch, Keep: filepath.Join(dir, "rules.json")}
	if err := s.Refresh(t.Context()); err != nil || s.Live.Load().Version() != "1" || !errors.Is(s.Status().KeepErr, os.ErrNotExist) {
		t.Errorf("Refresh = %v, status %+v; want version 1 and why it could not be kept", err, s.Status())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(t.Context()); err != nil || s.Status().KeepErr != nil || s.Status().Swaps != 1 {
		t.Errorf("Refresh = %v, status %+v; want it kept now, and not swapped", err, s.Status())
	}
	if data, err := os.ReadFile(s.Keep); err != nil || string(data) != string(o.data) {
		t.Errorf("kept %q, %v, want %q", data, err, o.data)
	}
}

// TestRun: every few minutes, not all processes at once, until the context
// ends.
func TestRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := &origin{data: versionOf("1")}
		var at []time.Time
		s := rules.Source{Fetch: o.fetch, OnState: func(rules.Status) { at = append(at, time.Now()) }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		time.Sleep(5 * time.Hour)
		cancel()
		<-ended
		if len(at) < 55 || len(at) > 66 {
			t.Fatalf("%d refreshes in 5 hours, want about 60", len(at))
		}
		waits := map[time.Duration]bool{}
		for i := 1; i < len(at); i++ {
			wait := at[i].Sub(at[i-1])
			waits[wait] = true
			if wait < 270*time.Second || wait > 331*time.Second {
				t.Errorf("refreshed after %v, want 5 minutes give or take a tenth", wait)
			}
		}
		if len(waits) < 40 {
			t.Errorf("only %d different waits of %d, want jitter", len(waits), len(at)-1)
		}
	})
}

// TestRunAfterRefresh: a program that has refreshed before it serves does not
// fetch the same again at once.
func TestRunAfterRefresh(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := &origin{data: versionOf("1")}
		s := rules.Source{Fetch: o.fetch, Every: time.Minute}
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		s.Run(ctx)
		if len(o.have) != 1 {
			t.Errorf("fetched %d times in 50 seconds, want once", len(o.have))
		}
	})
}

// TestRunWithoutVersion: a Source without rules refreshes more often.
func TestRunWithoutVersion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began, before, after := time.Now(), 0, 0
		s := rules.Source{Fetch: func(context.Context, string) ([]byte, string, error) {
			if time.Since(began) < 5*time.Minute {
				before++
				return nil, "", errors.New("away")
			}
			after++
			return versionOf("1"), "", nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Minute)
		defer cancel()
		s.Run(ctx)
		if before < 9 || before > 12 || after < 6 || after > 8 {
			t.Errorf("fetched %d times in 5 minutes without rules and %d times in the next 30, want about 11 and 7", before, after)
		}
	})
}

// TestRunHardlyEver: the longest time there is, and a tenth more, is not now.
func TestRunHardlyEver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := &origin{data: versionOf("1")}
		s := rules.Source{Fetch: o.fetch, Every: math.MaxInt64}
		ctx, cancel := context.WithTimeout(t.Context(), 365*24*time.Hour)
		defer cancel()
		s.Run(ctx)
		if len(o.have) != 1 {
			t.Errorf("fetched %d times in a year, want once", len(o.have))
		}
	})
}

// TestOneRefreshAtATime: and one that does not get its turn in time gives up.
func TestOneRefreshAtATime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		running := 0
		s := rules.Source{Timeout: time.Second, Fetch: func(ctx context.Context, _ string) ([]byte, string, error) {
			if running++; running > 1 {
				t.Error("two fetches at once")
			}
			<-ctx.Done()
			running--
			return nil, "", ctx.Err()
		}}
		for range 3 {
			go s.Refresh(t.Context())
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) || s.Status().Refreshes != 0 {
			t.Errorf("Refresh = %v, status %+v; want to give up its turn", err, s.Status())
		}
		time.Sleep(time.Minute)
		if got := s.Status(); got.Refreshes != 3 || got.Failures != 3 {
			t.Errorf("status %+v, want 3 refreshes that timed out", got)
		}
	})
}

func TestFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	s := rules.Source{Fetch: rules.FromFile(path)}
	if err := s.Refresh(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Refresh without file = %v", err)
	}
	for i, x := range []struct{ text, want string }{
		{string(versionOf("1")), "1"},
		{string(versionOf("2")), "2"},
		{"", "2"},
		{string(versionOf("3")) + strings.Repeat(" ", rules.MaxSize), "2"},
		{string(versionOf("4")), "4"},
	} {
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := s.Refresh(t.Context())
		if got := s.Live.Load().Version(); got != x.want || (err == nil) != (string(versionOf(got)) == x.text) {
			t.Errorf("file %d: version %s, %v; want %s", i, got, err, x.want)
		}
	}
}
