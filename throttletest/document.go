package throttletest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Document is the interface of package rules for a document that several processes
// share, rules.Shared.
type Document interface {
	Load(ctx context.Context) (version string, data []byte, err error)
	Swap(ctx context.Context, old string, data []byte) (version string, ok bool, err error)
}

// TestDocument tests two Documents that stand for the same one, as two processes
// have them, which must not exist yet.
func TestDocument(t *testing.T, a, b Document) {
	t.Helper()
	if version, data, err := a.Load(t.Context()); err != nil || version != "" || len(data) > 0 {
		t.Fatalf("Load of none = %q, %q, %v; want nothing", version, data, err)
	}
	if _, ok, err := a.Swap(t.Context(), "other", []byte("x")); ok || err != nil {
		t.Errorf("Swap of a version where there is none = %t, %v; want not ok", ok, err)
	}
	odd := "{\"text\": \"ü 漢 ' \\\" \\\\ %s $1 \u0001\"}\n"
	old := ""
	for i, text := range []string{"1", odd, strings.Repeat("x", 1<<20), "1"} {
		version, ok, err := a.Swap(t.Context(), old, []byte(text))
		if err != nil || !ok || version == "" || version == old {
			t.Fatalf("Swap %d = %q, %t, %v; want another version than %q", i, version, ok, err, old)
		}
		seen, data, err := b.Load(t.Context())
		if err != nil || seen != version || string(data) != text {
			t.Errorf("Load after Swap %d = %q, %d bytes, %v; want %q, %d bytes", i, seen, len(data), err, version, len(text))
		}
		for _, stale := range []string{old, "other"} {
			if _, ok, err := b.Swap(t.Context(), stale, []byte("stale")); ok || err != nil {
				t.Errorf("Swap %d of the version %q = %t, %v; want not ok", i, stale, ok, err)
			}
		}
		old = version
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok, _ := a.Swap(ended, old, []byte("1")); ok {
		t.Log("Swap with a context that has ended is done all the same")
	}
	swapTogether(t, a, b)
}

// swapTogether adds lines from several goroutines: each is there once.
func swapTogether(t *testing.T, a, b Document) {
	t.Helper()
	const adders, lines = 4, 10
	var all sync.WaitGroup
	for n := range adders {
		d := []Document{a, b}[n%2]
		all.Go(func() {
			for i := range lines {
				if err := addLine(t.Context(), d, fmt.Sprintf("%d-%d\n", n, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	_, data, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range adders {
		for i := range lines {
			if got := strings.Count("\n"+string(data), fmt.Sprintf("\n%d-%d\n", n, i)); got != 1 {
				t.Errorf("line %d-%d is there %d times, want once: a Swap was lost, or done twice", n, i, got)
			}
		}
	}
}

func addLine(ctx context.Context, d Document, line string) error {
	for range 10_000 {
		version, data, err := d.Load(ctx)
		if err != nil {
			return err
		}
		if len(data) > 1<<16 || len(data) == 1 {
			data = nil // of the tests before
		}
		if _, ok, err := d.Swap(ctx, version, append(data, line...)); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("line %q: 10,000 others were faster", line)
}
