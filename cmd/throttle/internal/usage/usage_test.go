package usage

import (
	"flag"
	"slices"
	"testing"
	"time"
)

// TestParseFlags: a value that is no such one is answered with what would be right, and
// a good one is set, before, between and after names.
func TestParseFlags(t *testing.T) {
	for _, c := range []struct{ flag, text, want string }{
		{"timeout", "5", "a duration such as 5s, 250ms or 1m30s"},
		{"timeout", "1d", "a duration such as 5s, 250ms or 1m30s"},
		{"callers", "many", "a whole number below 2^63, such as 20"},
		{"callers", "1.5", "a whole number below 2^63, such as 20"},
		{"max-body", "99999999999999999999", "a whole number below 2^63, such as 20"},
		{"seed", "-1", "a whole number from 0 to 2^64-1, such as 20"},
		{"from", "x", "a number such as 20 or 0.5"},
		{"share", "x", "a share"},
	} {
		f := newFlags()
		names, err := ParseFlags(f.set, []string{"name", "-" + c.flag, c.text})
		want := Errorf("take: invalid value %q for flag -%s: want %s; run 'throttle take -h'", c.text, c.flag, c.want)
		if names != nil || err != want {
			t.Errorf("-%s %s: %q, %v, want %v", c.flag, c.text, names, err, want)
		}
	}
	_, err := ParseFlags(newFlags().set, []string{"-listen", ""})
	if want := Errorf("take: invalid value \"\" for flag -listen: is empty, as by a variable that is not set; write a value, or leave it out; run 'throttle take -h'"); err != want {
		t.Errorf("-listen '': %v, want %v", err, want)
	}
	_, err = ParseFlags(newFlags().set, []string{"-shed=5"})
	if want := Errorf("take: invalid boolean value \"5\" for -shed: want true or false; run 'throttle take -h'"); err != want {
		t.Errorf("-shed=5: %v, want %v", err, want)
	}
	for flag, want := range map[string]string{
		"-time-out=1s": "take: flag -time-out is not known; did you mean -timeout?",
		"--shedd":      "take: flag -shedd is not known; did you mean -shed?",
		"-x":           "take: flag -x is not known; run 'throttle take -h'",
		"-call\ners":   "take: flag -\"call\\ners\" is not known; did you mean -callers?",
	} {
		if _, err := ParseFlags(newFlags().set, []string{flag, "a"}); err != Error(want) {
			t.Errorf("%q: %v, want %s", flag, err, want)
		}
	}
	for _, args := range [][]string{{"-listen", "a:1", "-listen", "b:1"}, {"-listen", "a:1", "name", "-listen=b:1"}} {
		if _, err := ParseFlags(newFlags().set, args); err != Error("take: flag -listen is given twice, with different values; write it once; run 'throttle take -h'") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := ParseFlags(newFlags().set, []string{"-listen", "a:1", "-listen", "a:1", "-callers", "1", "-callers", "2"}); err != nil {
		t.Errorf("the same twice, and another number: %v", err)
	}
	f := newFlags()
	names, err := ParseFlags(f.set, []string{"-shed", "a", "-listen", "b:1", "-timeout", "1m30s", "-callers=3", "b", "-from", "0.5", "-seed", "7", "-max-body", "-1", "--", "-c"})
	if !slices.Equal(names, []string{"a", "b", "-c"}) || err != nil || f.values != (values{90 * time.Second, 3, -1, 7, 0.5, true, "b:1"}) {
		t.Errorf("good flags: %q, %v, %+v", names, err, f.values)
	}
}

type values struct {
	timeout time.Duration
	callers int
	body    int64
	seed    uint64
	from    float64
	shed    bool
	listen  string
}

type flags struct {
	set *flag.FlagSet
	values
}

func newFlags() *flags {
	f := &flags{set: flag.NewFlagSet("take", flag.ContinueOnError)}
	f.set.DurationVar(&f.timeout, "timeout", 0, "")
	f.set.IntVar(&f.callers, "callers", 0, "")
	f.set.Int64Var(&f.body, "max-body", 0, "")
	f.set.Uint64Var(&f.seed, "seed", 0, "")
	f.set.Float64Var(&f.from, "from", 0, "")
	f.set.BoolVar(&f.shed, "shed", false, "")
	f.set.StringVar(&f.listen, "listen", ":8080", "")
	f.set.Func("share", "", func(string) error { return Error("want a share") })
	return f
}
