package outgoing

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
)

func TestLoopback(t *testing.T) {
	for text, want := range map[string]bool{
		"http://127.0.0.1/": true, "http://127.9.9.9:80/": true, "http://[::1]:80/": true, "http://LocalHost/": true,
		"http://[::ffff:127.0.0.1]/": true,
		"http://0.0.0.0/":            false, "http://10.0.0.1/": false, "http://localhost.evil.example/": false, "http://127.0.0.1.evil.example/": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Loopback(u); got != want {
			t.Errorf("Loopback(%s) is %t, want %t", text, got, want)
		}
	}
}

func TestAsk(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes": true, " YES \n": true, "n\n": false, "\n": false, "": false, "yess\n": false} {
		var b bytes.Buffer
		err := ask("Send 5 requests?", strings.NewReader(answer), &b)
		if (err == nil) != want || b.String() != "Send 5 requests? [y/N] " {
			t.Errorf("ask answered by %q: %v, wrote %q; want consent %t", answer, err, b.String(), want)
		}
	}
	var wrong usage.Error
	if err := Ask("Send?", "say -yes", strings.NewReader("y\n"), &bytes.Buffer{}); !errors.As(err, &wrong) || err.Error() != "say -yes" {
		t.Errorf("without a terminal: %v, want wrong usage", err)
	}
}

// Fields that net/http would not send are wrong usage, and no value of them is shown.
func TestHeader(t *testing.T) {
	got, err := Header([]string{"A: b:c ", "a:\t", "X-Y: é"})
	if err != nil || len(got["A"]) != 2 || got["A"][0] != "b:c" || got["A"][1] != "" || got.Get("X-Y") != "é" {
		t.Errorf("fields %q, %v", got, err)
	}
	for _, field := range []string{"", "A", ": secret", "A B: secret", "Ä: secret", "A(: secret", "A: secret\x01", "A: secret\nB: c", "A: secret\n", "A: secret\x7f", "content-Length: secret", "Transfer-Encoding: secret", "Trailer: secret"} {
		var wrong usage.Error
		if got, err := Header([]string{field}); !errors.As(err, &wrong) || strings.Contains(err.Error(), "secret") {
			t.Errorf("field %q: %q, %v; want wrong usage without the value", field, got, err)
		}
	}
}
