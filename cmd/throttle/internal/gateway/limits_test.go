package gateway

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRulesFileLog: what is wrong with a file of rules is logged once, not at each
// refresh, and that it is well again; new rules are, whatever their version is called.
func TestRulesFileLog(t *testing.T) {
	const good, other, bad = `{"version": "one", "rules": []}`, `{"version": "one", "rules": [{"name": "a", "limits": "1/h"}]}`, `{"version": "one"}`
	o := &options{rules: filepath.Join(t.TempDir(), "rules.json"), refresh: time.Hour}
	var said bytes.Buffer
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(o.rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	_, what, err := o.file(t.Context(), slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil || !strings.HasPrefix(what, "rules one of ") {
		t.Fatalf("%q, %v", what, err)
	}
	for _, x := range []struct{ text, want string }{
		{good, ""},
		{bad, "the rules stay as they are"},
		{bad, ""},
		{"[", "the rules stay as they are"},
		{bad, "the rules stay as they are"},
		{good, "the rules can be read again"},
		{good, ""},
		{bad, "the rules stay as they are"},
		{other, "new rules"},
		{other, ""},
	} {
		said.Reset()
		write(x.text)
		_ = o.reload(t.Context())
		if got := said.String(); !strings.Contains(got, x.want) || (got == "") != (x.want == "") {
			t.Errorf("%s: the log says %q, want %q", x.text, got, x.want)
		}
	}
}
