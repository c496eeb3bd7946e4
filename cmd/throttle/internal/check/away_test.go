package check

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStoreSilent: a store that takes connections and says nothing holds up a check for
// as long as it may take, and no longer.
func TestStoreSilent(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "gateway.yaml")
	for name, text := range map[string]string{
		"rules.yaml": "rules: [{name: a, key: address, limits: 1/s}]\n",
		"gateway.yaml": "version: 1\nrules: {file: rules.yaml}\nadmin: {listen: 127.0.0.1:1}\nstore: {url: 'postgres://u@" +
			silent.Addr().String() + "/db?sslmode=disable&connect_timeout=3600'}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := optionsOf([]string{"-request", "GET /", "-store", file})
	if err != nil {
		t.Fatal(err)
	}
	o.within = 50 * time.Millisecond
	f, err := o.check(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := o.decide(t.Context(), f)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a silent store has decided")
		}
	case <-time.After(10 * time.Second):
		t.Error("a check waits for longer than 10 s, want 50 ms")
	}
}
