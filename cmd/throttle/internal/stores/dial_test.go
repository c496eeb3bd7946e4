package stores

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// server answers nothing: each connection is read until the other side, or a failed
// handshake, ends it.
func server(t *testing.T, listener net.Listener, err error) (addr string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// TestRedisTLSMismatch: where one side speaks TLS and the other does not, the error says
// so, and not only that no answer came.
func TestRedisTLSMismatch(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	withoutTLS := server(t, plain, err)
	cert, err := tls.X509KeyPair(clitest.Certificate(t, time.Unix(0, 0), time.Unix(1<<33, 0)))
	if err != nil {
		t.Fatal(err)
	}
	secured, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	withTLS := server(t, secured, err)
	for text, want := range map[string]string{
		"rediss://" + withoutTLS:                 "nothing was charged: failed to connect: no answer to the handshake of TLS yet; if the server speaks none, write redis in place of rediss",
		"rediss+sentinel://" + withoutTLS + "/m": "write redis in place of rediss",
		"redis://" + withTLS:                     "write rediss in place of redis",
		"redis://" + withoutTLS:                  "not known whether it was charged: ",
	} {
		s, err := Open(t.Context(), text, Options{Command: "take", Timeout: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Take(t.Context(), s.Store, "k", limit.Limit{Count: 1, Period: time.Second}, 1)
		s.Close()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a Take at %s: %v, want %q", text, err, want)
		}
		if hint := "in place of"; err != nil && !strings.Contains(want, hint) && strings.Contains(err.Error(), hint) {
			t.Errorf("a Take at %s: %v, want nothing of TLS", text, err)
		}
	}
}
