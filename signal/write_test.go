package signal

import (
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// written is what a Write sets, a line a field.
func written(write func(set func(name, value string))) string {
	var all []string
	write(func(name, value string) { all = append(all, name+": "+value) })
	return strings.Join(all, "\n")
}

func TestWrite(t *testing.T) {
	some, of := pace.Some[time.Duration], pace.Some[int64]
	tests := []struct {
		s      Signal
		policy string
		want   string
	}{
		{Signal{}, "", ""},
		{Signal{After: some(0)}, "", "Retry-After: 0"},
		{Signal{After: some(1)}, "", "Retry-After: 1"},
		{Signal{After: some(1500 * time.Millisecond)}, "", "Retry-After: 2"},
		{Signal{After: some(-time.Second)}, "", "Retry-After: 0"},
		{Signal{Remaining: of(50)}, "", `RateLimit: "default";r=50`},
		{Signal{Remaining: of(-1)}, "", `RateLimit: "default";r=0`},
		{Signal{Remaining: of(1 << 62)}, "", `RateLimit: "default";r=999999999999999`},
		{Signal{Remaining: of(50), Reset: some(30 * time.Second)}, "burst", `RateLimit: "burst";r=50;t=30`},
		{Signal{Limit: of(100)}, "", `RateLimit-Policy: "default";q=100`},
		{Signal{Limit: of(100), Window: some(time.Minute)}, "", `RateLimit-Policy: "default";q=100;w=60`},
		{Signal{Limit: of(3), Window: some(1500 * time.Millisecond)}, "", `RateLimit-Policy: "default";q=4;w=2`},
		{Signal{Limit: of(10), Window: some(100 * time.Millisecond)}, "", `RateLimit-Policy: "default";q=100;w=1`},
		{Signal{Limit: of(709551606), Window: some(time.Minute)}, "", `RateLimit-Policy: "default";q=709551606;w=60`},
		{Signal{Limit: of(20), Window: some(time.Second), Burst: of(5)}, "", `RateLimit-Policy: "default";q=20;w=1;throttle-burst=5`},
		{Signal{Burst: of(5)}, "", ""},
		{Signal{Limit: of(1 << 62), Window: some(1)}, "", `RateLimit-Policy: "default";q=999999999999999;w=1`},
		{Signal{Limit: of(7)}, "a\"b\\c\nd€", `RateLimit-Policy: "a\"b\\c?d?";q=7`},
		{
			Signal{Limit: of(100), Window: some(time.Minute), Remaining: of(0), Reset: some(7 * time.Second), After: some(6100 * time.Millisecond)},
			"",
			"Retry-After: 7\nRateLimit: \"default\";r=0;t=7\nRateLimit-Policy: \"default\";q=100;w=60",
		},
	}
	for _, tt := range tests {
		got := written(func(set func(name, value string)) { tt.s.Write(set, tt.policy) })
		if got != tt.want {
			t.Errorf("(%s).Write(%q) sets\n%s\nwant\n%s", say(tt.s), tt.policy, got, tt.want)
		}
	}
	s := Signal{Remaining: of(4499), Limit: of(4500), After: some(1)}
	if got, want := written(s.WriteRemaining), "RateLimit-Remaining: 4499"; got != want {
		t.Errorf("WriteRemaining sets %q; want %q", got, want)
	}
	if got, want := written(s.WriteRetryAfter), "Retry-After: 1"; got != want {
		t.Errorf("WriteRetryAfter sets %q; want %q", got, want)
	}
	if got := written(Signal{}.WriteRemaining) + written(Signal{}.WriteRetryAfter); got != "" {
		t.Errorf("a Signal that says nothing sets %q", got)
	}
}

// FuzzRoundTrip writes a Signal and reads it again: what comes back is what
// was meant, up to whole seconds.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint8(31), int64(50), int64(100), int64(30e9), int64(60e9), int64(31e9), "default")
	f.Add(uint8(31), int64(0), int64(1), int64(1), int64(1e9), int64(1), `say "x"`)
	f.Add(uint8(6), int64(3), int64(7), int64(0), int64(86400e9), int64(0), "")
	f.Fuzz(func(t *testing.T, parts uint8, remaining, limit, reset, window, after int64, policy string) {
		if len(policy) > 1000 {
			return
		}
		// seconds, so that only what is documented may differ
		span := func(n, most int64) time.Duration { return time.Duration(uint64(n)%uint64(most)) + 1 }
		s := Signal{Verdict: pace.Served}
		s.After = pace.Opt[time.Duration]{V: span(after, int64(MaxAfter)), OK: parts&1 > 0}
		s.Remaining = pace.Opt[int64]{V: int64(uint64(remaining) % maxCount), OK: parts&2 > 0}
		s.Reset = pace.Opt[time.Duration]{V: span(reset, int64(MaxAfter)), OK: parts&6 == 6}
		s.Limit = pace.Opt[int64]{V: int64(uint64(limit) % 1e9), OK: parts&8 > 0}
		s.Window = pace.Opt[time.Duration]{V: Seconds(span(window, int64(maxWindow))), OK: parts&24 == 24}
		fields := written(func(set func(name, value string)) { s.Write(set, policy) })
		want := s
		want.After.V, want.Reset.V = Seconds(s.After.V), Seconds(s.Reset.V)
		if got := Read(200, lines(fields), t0); say(got) != say(want) {
			t.Errorf("%s written as\n%s\nis read as %s", say(want), fields, say(got))
		}
		bare := Read(200, lines(written(s.WriteRemaining)), t0)
		if bare.Remaining.OK != s.Remaining.OK || bare.Remaining.OK && bare.Remaining != s.Remaining {
			t.Errorf("remaining %+v written bare is read as %+v", s.Remaining, bare.Remaining)
		}
	})
}

func TestShareGoesAlong(t *testing.T) {
	for _, c := range []struct{ said, read float64 }{{2.5, 2.5}, {1.0 / 3, 0.333}, {0.00001, 0.001}, {1e12, MaxShare}} {
		s := Signal{Remaining: pace.Some(int64(7)), Share: pace.Some(c.said)}
		fields := map[string]string{}
		s.Write(func(name, value string) { fields[name] = value }, "")
		if got := Read(200, func(name string) string { return fields[name] }, time.Unix(0, 0)).Share; got != pace.Some(c.read) {
			t.Errorf("%q is read as a share of %v, want %v", fields["RateLimit"], got, c.read)
		}
	}
	for _, bad := range []string{"0", "-1", "nan", "1e3", "x", "", "99999999999"} {
		field := func(name string) string {
			if name == "RateLimit" {
				return `"default";r=7;throttle-share=` + bad
			}
			return ""
		}
		if got := Read(200, field, time.Unix(0, 0)); got.Share.OK || got.Share.V != 0 {
			t.Errorf("share=%s is read as %v, want none", bad, got.Share)
		}
	}
}

// Of two items that may tell of the same limit either may say the share; of two limits
// it is that of the one that binds.
func TestShareOfSeveral(t *testing.T) {
	equal, other := `"a";q=60;w=60, "b";q=60;w=60`, `"a";q=60;w=60, "b";q=9;w=1`
	for _, c := range []struct {
		current, policies string
		want              pace.Opt[float64]
	}{
		{`"a";r=7;t=9;throttle-share=2.5, "b";r=7;t=9`, equal, pace.Some(2.5)},
		{`"a";r=7;t=9, "b";r=7;t=9;throttle-share=2.5`, equal, pace.Some(2.5)},
		{`"a";r=7;throttle-share=2.5, "b";r=7`, "", pace.Some(2.5)},
		{`"a";r=7;t=9;throttle-share=2.5, "b";r=7;t=9`, other, pace.Some(2.5)},
		{`"a";r=7;t=9;throttle-share=2.5, "b";r=6;t=9`, equal, pace.Opt[float64]{}},
		{`"a";r=7;t=9, "b";r=8;t=9;throttle-share=2.5`, equal, pace.Opt[float64]{}},
	} {
		field := func(name string) string {
			return map[string]string{"RateLimit": c.current, "RateLimit-Policy": c.policies}[name]
		}
		if got := Read(200, field, t0).Share; got != c.want {
			t.Errorf("%s of %s: share %v, want %v", c.current, c.policies, got, c.want)
		}
	}
}

// What remains is of the burst: a caller that reads 4 of a limit of 20 would
// believe that others use it.
func TestBurstGoesAlong(t *testing.T) {
	s := Signal{Limit: pace.Some(int64(20)), Window: pace.Some(time.Second), Remaining: pace.Some(int64(4)), Burst: pace.Some(int64(5))}
	fields := map[string]string{}
	s.Write(func(name, value string) { fields[name] = value }, "")
	field := func(name string) string { return fields[name] }
	if got := Read(200, field, t0); got.Burst != s.Burst || got.Limit != s.Limit || got.Report().Hints.Burst != s.Burst {
		t.Errorf("%q is read as %+v, want a burst of 5", fields["RateLimit-Policy"], got)
	}
	_, notes := For("api.example").Explain(200, field, nil, t0)
	if got, want := notes[len(notes)-1].Says, "default: 4 of 5 requests left, limit 20, window 1s"; got != want {
		t.Errorf("explained as %q, want %q", got, want)
	}
	two := func(name string) string {
		return map[string]string{
			"RateLimit":        `"a";r=9;t=1, "b";r=2;t=1`,
			"RateLimit-Policy": `"a";q=20;w=1;throttle-burst=10, "b";q=100;w=60;throttle-burst=3`,
		}[name]
	}
	var bursts []int64
	for _, p := range For("api.example").Read(200, two, nil, t0).Policies {
		bursts = append(bursts, p.Report(pace.Report{}).Hints.Burst.V)
	}
	if len(bursts) != 2 || bursts[0] != 10 || bursts[1] != 3 {
		t.Errorf("two policies have bursts of %v, want 10 and 3", bursts)
	}
}
