//go:build darwin || linux

package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStarvedSpares: where this process may open no more files, connections that carry no
// request make room for one that does.
func TestStarvedSpares(t *testing.T) {
	var urls []string
	for range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	idle, p := poolOf(t, Options{}, urls[0]), (*Pool)(nil)
	p = poolOf(t, Options{OnStarved: func() { idle.Spare() }}, urls[1])
	ask := func(p *Pool) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://h/", nil)
		if err != nil {
			t.Fatal(err)
		}
		e := pick(t, p)
		defer e.Release()
		a, err := e.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, a.Body)
		a.Body.Close()
	}
	ask(idle)
	unlimited := noMoreFiles(t)
	defer unlimited()
	ask(p)
}

// noMoreFiles has this process open no file beyond those that are open.
func noMoreFiles(t *testing.T) (unlimited func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	now := before
	for range 100 { // more than the numbers that are free below those in use
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		now.Cur = uint64(f.Fd()) + 1
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}
