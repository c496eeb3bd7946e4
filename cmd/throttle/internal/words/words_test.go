package words

import (
	"strings"
	"testing"
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
