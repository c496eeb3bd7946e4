package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
)

// TestItself: a target that is the socket of the gateway is refused, by whatever name.
func TestItself(t *testing.T) {
	for _, c := range []struct {
		to, listen string
		want       bool
	}{
		{"http://127.0.0.1:8080", "127.0.0.1:8080", true},
		{"http://localhost:8080/x", "127.0.0.1:8080", true},
		{"http://127.0.0.1:8080", "localhost:8080", true},
		{"http://127.0.0.1:8080", ":8080", true},
		{"http://[::1]:8080", "[::]:8080", true},
		{"http://127.0.0.2:8080", "0.0.0.0:8080", true},
		{"http://localhost", ":80", true},
		{"https://localhost", ":443", true},
		{"http://localhost", ":http", true},
		{"http://10.0.0.1:80", "10.0.0.1:80", true},
		{"http://App:80", "app:80", true},
		{"http://127.0.0.1:8080", "127.0.0.1:8081", false},
		{"http://127.0.0.2:8080", "127.0.0.1:8080", false},
		{"http://[::1]:8080", "0.0.0.0:8080", false},
		{"http://10.0.0.1:8080", ":8080", false},
		{"http://app:8080", ":8080", false},
		{"https://localhost", ":80", false},
		{"dns+srv://localhost", ":80", false},
		{"http://localhost:80", "unix:/run/x", false},
		{"http://127.0.0.1:8080", "127.0.0.1:0", false},
	} {
		u, err := upstream.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := itself(u, c.listen); got != c.want {
			t.Errorf("itself(%s, %s) = %v, want %v", c.to, c.listen, got, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, errs, code := clitest.Play(ctx, Run, "-to", "http://localhost:8080", "-limit", "1/s")
	if want := "gateway: -to http://localhost:8080: is this gateway itself; write another -listen\n"; code != 2 || !strings.HasSuffix(errs, want) {
		t.Errorf("code %d, %s; want 2, %s", code, errs, want)
	}
	_, err := New(Config{Listen: []Listen{{Addr: ":1"}, {Addr: ":2"}}, Routes: []Route{{To: []string{"http://localhost:3", "http://localhost:2"}}}})
	if want := "routes[0].to[1]: http://localhost:2: is this gateway itself, at listen[1]; write another of the two"; err == nil || err.Error() != want {
		t.Errorf("New = %v, want %s", err, want)
	}
}
