package throttlesql

import "testing"

// A fence that is another than before, or gone, is counted once; the first is not.
func TestLosses(t *testing.T) {
	at := func(us int64) *int64 { return &us }
	for i, test := range []struct {
		says []*int64
		want int64
	}{
		{nil, 0},
		{[]*int64{at(-1 << 62)}, 0},
		{[]*int64{at(-1 << 62), at(-1 << 62)}, 0},
		{[]*int64{at(-1 << 62), at(17), at(17)}, 1}, // another process has found it
		{[]*int64{at(-1 << 62), nil, nil, at(17), at(17)}, 1},
		{[]*int64{nil, at(17), nil, nil, at(18)}, 2},
	} {
		var l losses
		for _, since := range test.says {
			l.note(since)
		}
		if got := l.count.Load(); got != test.want {
			t.Errorf("case %d: %d losses, want %d", i, got, test.want)
		}
	}
}
