package words

import "testing"

func TestOneLine(t *testing.T) {
	if got, want := OneLine("a\nb\x1b[0m é"), `a\nb\x1b[0m é`; got != want {
		t.Errorf("OneLine = %q, want %q", got, want)
	}
}
