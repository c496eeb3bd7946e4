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

// TestFiles: where this process may open no more files, or there are as many connections as
// there may be, those that carry no request make room for one that does.
func TestFiles(t *testing.T) {
	var urls []string
	for range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	var idle, p *Pool
	files := &Files{Most: 3, Spare: func() { idle.Spare(); p.Spare() }}
	idle, p = poolOf(t, Options{Files: files}, urls[0]), poolOf(t, Options{Files: files}, urls[1])
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
	ask(p)
	unlimited()
	for _, c := range []struct{ most, want int64 }{{3, 2}, {2, 2}, {1, 1}} {
		idle.Spare()
		p.Spare()
		files.Most = c.most
		ask(idle)
		ask(p)
		if n := files.open.Load(); n != c.want {
			t.Errorf("%d connections are open of at most %d, want %d", n, c.most, c.want)
		}
	}
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
