package words

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestOneLine(t *testing.T) {
	if got, want := OneLine("a\xff\x9b31m\ufffd\n"), `a\xff\x9b31m`+"\ufffd"+`\n`; got != want {
		t.Errorf("OneLine = %q, want %q", got, want)
	}
	if got, want := OneLine("a\x9b"), `a\x9b`; got != want {
		t.Errorf("OneLine = %q, want %q", got, want)
	}
	if got, want := OneLine("a\nb\x1b[0m é\u202egro\u2028x\u200b"), `a\nb\x1b[0m é\u202egro\u2028x\u200b`; got != want {
		t.Errorf("OneLine = %q, want %q", got, want)
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "a": "a", "é日\ufffd": "é日\ufffd", "a b": `"a b"`, "a\x9b31m": `"a\x9b31m"`,
		strings.Repeat("a", 41): strings.Repeat("a", 40) + "...",
	} {
		if got := Quote(text); got != want {
			t.Errorf("Quote(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1m30s": 90 * time.Second, ".5s": 500 * time.Millisecond, "0": 0, "2562047h": 2562047 * time.Hour,
		"9999999h": math.MaxInt64, "+9999999.5h1m": math.MaxInt64, "99999999999999999999s": math.MaxInt64,
		"-9999999h": math.MinInt64,
	} {
		if got, ok := Duration(text); got != want || !ok {
			t.Errorf("Duration(%q) = %s, %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "9999999", "9999999d", "1e400h", "h", "-", ".h", "9999999h "} {
		if got, ok := Duration(text); ok {
			t.Errorf("Duration(%q) = %s, want none", text, got)
		}
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"acme é 日本":          "acme é 日本",
		"a\u202egro.elpmaxe": `a\u202egro.elpmaxe`,
		"acme\u200b":         `acme\u200b`,
		"a\nb\x00":           `a\nb\x00`,
		"0123456789abcdefg":  "0123456789abcdef…",
	} {
		if got := Visible(text, 16); got != want {
			t.Errorf("Visible(%q) = %q, want %q", text, got, want)
		}
	}
}
