package upstream

import (
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
)

// broken fails by an error.
type broken struct{ err error }

func (b broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }

// TestStarved: an upstream that refuses connections is ejected, but not where this process
// can open none.
func TestStarved(t *testing.T) {
	for errno, ejects := range map[syscall.Errno]bool{
		syscall.ECONNREFUSED: true, syscall.EADDRNOTAVAIL: true, // as an address of IPv6 without IPv6
		syscall.EMFILE: false, syscall.ENFILE: false, syscall.ENOBUFS: false,
	} {
		err := &Unsent{&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", errno)}}
		p := poolOf(t, Options{Transport: broken{err}}, "http://192.0.2.1:80")
		r, e := http.NewRequestWithContext(t.Context(), "GET", "http://h/", nil)
		if e != nil {
			t.Fatal(e)
		}
		for range 2 * tolerated {
			to := pick(t, p)
			if _, got := to.RoundTrip(r); !errors.Is(got, err) {
				t.Fatalf("%v: %v", errno, got)
			}
			to.Release()
		}
		if got := !p.States()[0].Until.IsZero(); got != ejects {
			t.Errorf("after %v: ejected is %v, want %v", errno, got, ejects)
		}
	}
}
