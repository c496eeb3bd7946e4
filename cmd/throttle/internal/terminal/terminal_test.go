package terminal

import "testing"

func TestCut(t *testing.T) {
	for _, test := range []struct {
		columns int
		want    string
	}{{-1, "größe"}, {0, "größe"}, {4, "größ"}, {5, "größe"}, {9, "größe"}} {
		if got := cut("größe", test.columns); got != test.want {
			t.Errorf("cut to %d columns = %q, want %q", test.columns, got, test.want)
		}
	}
}
