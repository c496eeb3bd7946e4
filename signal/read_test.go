package signal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

var t0 = time.Date(2026, 11, 6, 8, 49, 37, 0, time.UTC)

// lines makes a field function of "Name: value" lines.
func lines(text string) func(string) string {
	return func(name string) string {
		var values []string
		for line := range strings.SplitSeq(text, "\n") {
			n, value, _ := strings.Cut(line, ":")
			if strings.EqualFold(n, name) {
				values = append(values, strings.TrimSpace(value))
			}
		}
		return strings.Join(values, ", ")
	}
}

// say is s in the order verdict after remaining/limit reset window.
func say(s Signal) string {
	text := s.Verdict.String()
	if s.After.OK {
		text += fmt.Sprint(" after=", s.After.V)
	}
	if s.Remaining.OK {
		text += fmt.Sprint(" r=", s.Remaining.V)
	}
	if s.Reset.OK {
		text += fmt.Sprint(" t=", s.Reset.V)
	}
	if s.Limit.OK {
		text += fmt.Sprint(" q=", s.Limit.V)
	}
	if s.Window.OK {
		text += fmt.Sprint(" w=", s.Window.V)
	}
	return text
}

const soon = "Fri, 06 Nov 2026 08:50:07 GMT" // t0 + 30 s

var readTests = []struct {
	name   string
	status int
	fields string
	want   string
}{
	{"nothing", 200, "", "served"},
	{"redirect", 301, "", "served"},
	{"client's fault", 404, "", "served"},
	{"timeout of the client", 408, "", "served"},
	{"too many", 429, "", "throttled"},
	{"server's fault", 500, "", "failed"},
	{"bad gateway", 502, "", "failed"},
	{"unavailable", 503, "", "throttled"},
	{"gateway timeout", 504, "", "failed"},

	{"seconds", 429, "Retry-After: 120", "throttled after=2m0s"},
	{"decimals", 429, "Retry-After: 2.5", "throttled after=2.5s"},
	{"decimals of nothing", 429, "Retry-After: 2.0", "throttled after=2s"},
	{"at once", 429, "Retry-After: 0", "throttled after=0s"},
	{"negative", 429, "Retry-After: -7", "throttled"},
	{"spaces", 429, "Retry-After:  \t 7 ", "throttled after=7s"},
	{"a day", 429, "Retry-After: 86400", "throttled after=24h0m0s"},
	{"more than a day", 429, "Retry-After: 86401", "throttled after=1h0m0s"},
	{"absurd", 429, "Retry-After: 1000000", "throttled after=1h0m0s"},
	{"a year", 429, "Retry-After: 31622400", "throttled after=1h0m0s"},
	{"more than a year", 429, "Retry-After: 31622401", "throttled"},
	{"a thousand million less one", 429, "Retry-After: 999999999", "throttled"},
	{"a Unix time", 429, "Retry-After: 1793955007", "throttled after=30s"},
	{"a Unix time with a fraction", 429, "Retry-After: 1793955007.5", "throttled after=30.5s"},
	{"a Unix time in milliseconds", 429, "Retry-After: 1793955007000", "throttled after=30s"},
	{"a Unix time just gone", 429, "Retry-After: 1793954976", "throttled after=0s"},
	{"a Unix time long gone", 429, "Retry-After: 1600000000", "throttled"},
	{"a Unix time in a week", 429, "Retry-After: 1794559777", "throttled after=1h0m0s"},
	{"a Unix time in thirty years", 429, "Retry-After: 2740000000", "throttled"},
	{"more than an int64", 429, "Retry-After: 99999999999999999999", "throttled"},
	{"not a number", 429, "Retry-After: NaN", "throttled"},
	{"less than none", 429, "Retry-After: -99999999999999999999", "throttled"},
	{"RFC 3339", 429, "Retry-After: 2026-11-06T08:50:07Z", "throttled after=30s"},
	{"RFC 3339 in another zone", 429, "Retry-After: 2026-11-06T09:50:07+01:00", "throttled after=30s"},
	{"served later", 202, "Retry-After: 5", "served after=5s"},
	{"failed", 502, "Retry-After: 5", "failed after=5s"},
	{"exponent", 429, "Retry-After: 1e3", "throttled"},
	{"hexadecimal", 429, "Retry-After: 0x10", "throttled"},
	{"infinite", 429, "Retry-After: inf", "throttled"},
	{"a point", 429, "Retry-After: .", "throttled"},
	{"unit", 429, "Retry-After: 5s", "throttled after=5s"},
	{"negative unit", 429, "Retry-After: -5s", "throttled"},
	{"words", 429, "Retry-After: soon", "throttled"},
	{"endless", 429, "Retry-After: " + strings.Repeat("1", 65), "throttled"},

	{"two lines", 429, "Retry-After: 1\nRetry-After: 40", "throttled after=40s"},
	{"two in one line", 429, "Retry-After: 40,1", "throttled after=40s"},
	{"seconds and a date", 429, "Retry-After: 7\nRetry-After: " + soon, "throttled after=30s"},
	{"two dates", 429, "Retry-After: " + soon + ", Friday, 06-Nov-26 08:50:17 GMT", "throttled after=40s"},
	{"two, one malformed", 429, "Retry-After: soon, 5", "throttled after=5s"},
	{"a day without a date", 429, "Retry-After: Mon, 5", "throttled"},
	{"two, one absurd", 429, "Retry-After: 5, 31622401", "throttled after=5s"},
	{"two, one negative", 429, "Retry-After: -7, 5", "throttled after=5s"},
	{"commas alone", 429, "Retry-After: ,,", "throttled"},
	{"too many", 429, "Retry-After: 1" + strings.Repeat(",2", 2*maxMembers), "throttled after=2s"},

	{"RFC 1123", 429, "Retry-After: " + soon, "throttled after=30s"},
	{"email", 429, "Retry-After: Fri, 6 Nov 2026 08:50:07 -0000", "throttled after=30s"},
	{"email in another zone", 429, "Retry-After: Fri, 06 Nov 2026 09:50:07 +0100", "throttled after=30s"},
	{"UTC by its name", 429, "Retry-After: Fri, 06 Nov 2026 08:50:07 UTC", "throttled after=30s"},
	{"RFC 850", 429, "Retry-After: Friday, 06-Nov-26 08:50:07 GMT", "throttled after=30s"},
	{"ANSI C", 429, "Retry-After: Fri Nov  6 08:50:07 2026", "throttled after=30s"},
	{"past", 429, "Retry-After: Fri, 06 Nov 2026 08:49:07 GMT", "throttled after=0s"},
	{"next year", 429, "Retry-After: Sat, 06 Nov 2027 08:50:07 GMT", "throttled after=1h0m0s"},
	{"in a hundred years", 429, "Retry-After: Fri, 06 Nov 2126 08:50:07 GMT", "throttled"},
	{"1970", 429, "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", "throttled"},
	{"year 1", 429, "Retry-After: Mon, 01 Jan 0001 00:00:00 GMT", "throttled"},
	{"another zone", 429, "Retry-After: Fri, 06 Nov 2026 08:50:07 CET", "throttled"},
	{"clock behind ours", 429, "Date: Fri, 06 Nov 2026 08:40:07 GMT\nRetry-After: Fri, 06 Nov 2026 08:40:12 GMT", "throttled after=5s"},
	{"clock ahead of ours", 429, "Date: Fri, 06 Nov 2026 09:40:07 GMT\nRetry-After: Fri, 06 Nov 2026 09:40:12 GMT", "throttled after=5s"},
	{"bad Date", 429, "Date: today\nRetry-After: " + soon, "throttled after=30s"},

	{"one limit", 200, `RateLimit: "default";r=50;t=30`, "served r=50 t=30s"},
	{"no reset", 200, `RateLimit: "default";r=50`, "served r=50"},
	{"token", 200, `RateLimit: default;r=50;t=30`, "served r=50 t=30s"},
	{"with policy", 200, "RateLimit: \"default\";r=50;t=30\nRateLimit-Policy: \"default\";q=100;w=60", "served r=50 t=30s q=100 w=1m0s"},
	{"names disagree", 200, "RateLimit: \"default\";r=50;t=30\nRateLimit-Policy: \"burst\";q=100;w=60", "served r=50 t=30s q=100 w=1m0s"},
	{
		"the least binds", 200,
		"RateLimit: \"daily\";r=700;t=4000, \"burst\";r=50;t=30\nRateLimit-Policy: \"burst\";q=100;w=60,\"daily\";q=1000;w=86400",
		"served r=50 t=30s q=100 w=1m0s",
	},
	{
		"several lines", 200,
		"RateLimit: \"burst\";r=50;t=30\nRateLimit: \"daily\";r=7;t=4000\nRateLimit-Policy: \"burst\";q=100;w=60\nRateLimit-Policy: \"daily\";q=1000;w=86400",
		"served r=7 t=1h6m40s q=1000 w=24h0m0s",
	},
	{"the last reset binds", 429, `RateLimit: "a";r=0;t=3, "b";r=0;t=9, "c";r=0;t=5`, "throttled after=9s r=0 t=9s"},
	{
		"the later reset binds, with its own window", 429,
		"RateLimit: \"long\";r=0;t=50, \"short\";r=0;t=1\nRateLimit-Policy: \"long\";q=10;w=60, \"short\";q=10;w=1",
		"throttled after=50s r=0 t=50s q=10 w=1m0s",
	},
	{
		"the later reset binds", 200,
		"RateLimit: \"a\";r=5;t=9, \"b\";r=5;t=3\nRateLimit-Policy: \"a\";q=10;w=60, \"b\";q=20;w=60",
		"served r=5 t=9s q=10 w=1m0s",
	},
	{"the last of a name", 200, `RateLimit: "a";r=1;r=2`, "served r=2"},
	{"a Dictionary with a bare key", 200, `RateLimit: remaining=7, default;r=0`, "served r=7"},
	{"half a List, half a Dictionary", 200, `RateLimit: remaining=7, "default";r=0`, "served"},
	{"a key in quotes", 200, `RateLimit: "remaining"=7`, "served"},
	{"neither number nor token", 200, `RateLimit: 100x;r=5`, "served"},
	{"neither true nor false", 200, `RateLimit: "a";r=5;x=?2`, "served"},
	{"a parameter without a letter", 200, `RateLimit: "a";r=5;1=1`, "served"},
	{"date and display string", 200, `RateLimit: @1659578233;r=5;x=%"f%c3%bc"`, "served r=5"},
	{
		"another unit", 200,
		"RateLimit: \"bytes\";r=5;t=1, \"calls\";r=50;t=30\nRateLimit-Policy: \"bytes\";q=1000;w=1;qu=\"content-bytes\", \"calls\";q=100;w=60;qu=\"requests\"",
		"served r=50 t=30s q=100 w=1m0s",
	},
	{"partition key", 200, `RateLimit: "default";pk=:QXBwLTk5OQ==:;r=9;t=30`, "served r=9 t=30s"},
	{"open partition key", 200, `RateLimit: "default";pk=:QXBwLTk5OQ==;r=9;t=30`, "served"},
	{"policy alone", 200, `RateLimit-Policy: "burst";q=100;w=60`, "served q=100 w=1m0s"},
	{"policies alone", 200, `RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400`, "served"},
	{"policy without window", 200, `RateLimit-Policy: "burst";q=100`, "served q=100"},
	{"escaped name", 200, `RateLimit: "a\"b\\c";r=1` + "\n" + `RateLimit-Policy: "x";q=5;w=5, "a\"b\\c";q=7;w=7`, "served r=1 q=7 w=7s"},
	{"comma and semicolon in the name", 200, `RateLimit: "a,b;r=9";r=1`, "served r=1"},
	{"empty window", 200, `RateLimit-Policy: "burst";q=100;w=0`, "served q=100"},
	{"window of centuries", 200, `RateLimit-Policy: "burst";q=100;w=99999999999`, "served q=100"},
	{"fraction left", 200, `RateLimit: "default";r=5.9;t=0.5`, "served r=5 t=500ms"},
	{"negative left", 200, `RateLimit: "default";r=-1;t=5`, "served"},
	{"absurd left", 200, `RateLimit: "default";r=1000000000000000;t=5`, "served"},
	{"absurd reset", 200, `RateLimit: "default";r=1;t=1000000`, "served r=1 t=24h0m0s"},
	{"open quote", 200, `RateLimit: "default;r=1;t=5`, "served"},
	{"comma at the end", 200, `RateLimit: "default";r=1;t=5,`, "served"},
	{"spaces around a comma", 200, "RateLimit: \"a\";r=5 \t, \t\"b\"; r=2;t=9", "served r=2 t=9s"},
	{"no comma", 200, `RateLimit: "a";r=1 "b";r=2`, "served"},
	{"no key", 200, `RateLimit: "a";=1;r=1`, "served"},
	{"no value", 200, `RateLimit: "a";r=`, "served"},
	{"bare key", 200, `RateLimit: "a";r`, "served"},
	{"inner list", 200, `RateLimit: ("a" "b");r=1`, "served"},
	{"too long", 200, `RateLimit: "` + strings.Repeat("a", maxField) + `";r=1`, "served"},
	{"too many", 200, `RateLimit: "a";r=1` + strings.Repeat(`, "a";r=1`, maxMembers), "served"},
	{"too many parameters", 200, `RateLimit: "a";r=1` + strings.Repeat(`;x=1`, maxParams), "served"},
	{"as many parameters as may be", 200, `RateLimit: "a";r=1` + strings.Repeat(`;x=1`, maxParams-1), "served r=1"},
	{"control character", 200, "RateLimit: \"a\x01\";r=1", "served"},
	{"letters beyond ASCII", 200, "RateLimit: \"é\";r=1", "served"},
	{"window of next to nothing", 200, `RateLimit-Policy: "a";q=1;w=0.0000000001`, "served q=1 w=1ns"},
	{"as many as may be", 200, `RateLimit: "a";r=1` + strings.Repeat(`, "a";r=1`, maxMembers-1), "served r=1"},

	{"Retry-After over reset", 429, "Retry-After: 7\nRateLimit: \"default\";r=0;t=30", "throttled after=7s r=0 t=7s"},
	{"reset where nothing is left", 429, `RateLimit: "default";r=0;t=30`, "throttled after=30s r=0 t=30s"},
	{"refused though something is left", 429, `RateLimit: "default";r=5;t=30`, "throttled r=5 t=30s"},
	{"last one served", 200, `RateLimit: "default";r=0;t=30`, "served r=0 t=30s"},

	{"draft-07", 200, "RateLimit: limit=100, remaining=99, reset=50\nRateLimit-Policy: 10;w=1, 100;w=60", "served r=99 t=50s q=100 w=1m0s"},
	{"draft-07, nothing left", 429, "RateLimit: limit=100, remaining=0, reset=50", "throttled after=50s r=0 t=50s q=100"},
	{"draft-06", 200, "RateLimit-Limit: 100\nRateLimit-Remaining: 40\nRateLimit-Reset: 36000\nRateLimit-Policy: 100;w=60", "served r=40 t=10h0m0s q=100 w=1m0s"},
	{"draft-06, limit in the policy", 200, "RateLimit-Remaining: 40\nRateLimit-Policy: 100;w=60", "served r=40 q=100 w=1m0s"},
	{"draft-06, which policy", 200, "RateLimit-Remaining: 40\nRateLimit-Policy: 100;w=60, 10;w=1", "served r=40"},
	{"draft-03", 200, "RateLimit-Limit: 12, 12;w=1, 1000;w=3600\nRateLimit-Remaining: 4", "served r=4 q=12 w=1s"},
	{"bare remaining", 200, "RateLimit-Remaining: 4499", "served r=4499"},
	{"bare remaining, none", 429, "RateLimit-Remaining: 0", "throttled r=0"},
	{"bare reset, refused", 429, "X-RateLimit-Reset: 9", "throttled after=9s t=9s"},
	{"Unix time", 403, "RateLimit-Limit: 60\nRateLimit-Remaining: 0\nRateLimit-Reset: 1793954999", "served r=0 t=22s q=60"},
	{"X triple", 200, "X-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 4999\nX-RateLimit-Reset: 1793958577", "served r=4999 t=1h0m0s q=5000"},
	{"Unix time by the server's clock", 200, "Date: Fri, 06 Nov 2026 08:40:07 GMT\nX-RateLimit-Reset: 1793954412", "served t=5s"},
	{"Unix time with a fraction", 200, "X-RateLimit-Reset: 1793954978.5", "served t=1.5s"},
	{"Unix time in milliseconds", 200, "X-RateLimit-Reset: 1793954978500", "served t=1.5s"},
	{"Unix time gone", 200, "X-RateLimit-Reset: 1600000000", "served t=0s"},
	{"Unix time without end", 200, "X-RateLimit-Reset: 99999999999999999999", "served"},
	{"Unix time beyond all numbers", 200, "X-RateLimit-Reset: " + strings.Repeat("9", 60), "served"},
	{"nearly a Unix time", 200, "X-RateLimit-Reset: 500000000", "served"},
	{"Unix time of 1985", 200, "X-RateLimit-Reset: 500000001", "served t=0s"},
	{"date", 200, "X-RateLimit-Reset: " + soon, "served t=30s"},
	{"floats", 200, "X-RateLimit-Remaining: 586.0\nX-RateLimit-Reset: 272", "served r=586 t=4m32s"},
	{"a month's reset", 429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795164577", "throttled after=1h0m0s r=0 t=1h0m0s"},
	{"milliseconds taken for seconds", 429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 600000", "throttled after=1h0m0s r=0 t=1h0m0s"},
	{"nearly a day", 429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 86399", "throttled after=23h59m59s r=0 t=23h59m59s"},
	{"text", 200, "X-RateLimit-Remaining: many\nX-RateLimit-Reset: soon", "served"},
	{"duration", 200, "X-RateLimit-Reset: 6m0s", "served t=6m0s"},
	{"RFC 3339", 200, "X-RateLimit-Reset: 2026-11-06T08:50:07Z", "served t=30s"},
	{"a dash more", 200, "X-Rate-Limit-Remaining: 3\nX-Rate-Limit-Reset: 1793954999", "served r=3 t=22s"},
	{"milliseconds", 429, "Retry-After-Ms: 1500\nRetry-After: 2", "throttled after=1.5s"},
	{"milliseconds of nothing", 200, "Retry-After-Ms: 1500\nX-Retry-In: 5s", "served"},
	{"bad milliseconds", 429, "Retry-After-Ms: soon\nRetry-After: 2", "throttled after=2s"},
	{"window beside the number", 429, "RateLimit-Limit: 100;w=21600\nRateLimit-Remaining: 0;w=21600", "throttled after=15m0s r=0 q=100 w=6h0m0s"},
	{"numbers side by side", 200, "X-RateLimit-Limit: 10;w=1, 500;w=60\nX-RateLimit-Remaining: 9;w=1, 3;w=60", "served r=3 q=500 w=1m0s"},
	{"resets side by side", 429, "X-RateLimit-Limit: 10, 500\nX-RateLimit-Remaining: 9, 0\nX-RateLimit-Reset: 1, 30", "throttled after=30s r=0 t=30s q=500"},
	{"side by side, one malformed", 200, "X-RateLimit-Limit: 10, 500\nX-RateLimit-Remaining: 9, many", "served q=10"},
	{"a day used up", 429, "RateLimit-Policy: \"day\";q=1000;w=86400\nRateLimit: \"day\";r=0", "throttled after=1h0m0s r=0 q=1000 w=24h0m0s"},
	{"an hour used up", 429, "RateLimit-Policy: \"h\";q=1000;w=3600\nRateLimit: \"h\";r=0", "throttled r=0 q=1000 w=1h0m0s"},
	{"the draft over X", 200, "X-RateLimit-Remaining: 5\nRateLimit-Remaining: 6", "served r=6"},
	{"the item over all", 200, "X-RateLimit-Remaining: 5\nRateLimit-Remaining: 6\nRateLimit: \"a\";r=7", "served r=7"},

	{"cached", 200, "Age: 1\nRateLimit: \"default\";r=0;t=30\nX-RateLimit-Remaining: 0", "served"},
	{"fresh out of a cache", 200, "Age: 0\nRateLimit: \"default\";r=0;t=30", "served r=0 t=30s"},
	{"cached refusal", 503, "Age: 20\nRetry-After: 50", "throttled after=30s"},
	{"cached refusal, over", 503, "Age: 60\nRetry-After: 50", "throttled after=0s"},
	{"cached refusal, silent", 503, "Age: 60", "throttled"},
}

func TestRead(t *testing.T) {
	for _, tt := range readTests {
		if got := say(Read(tt.status, lines(tt.fields), t0)); got != tt.want {
			t.Errorf("%s: Read(%d, %q) = %s; want %s", tt.name, tt.status, tt.fields, got, tt.want)
		}
	}
}

func TestReport(t *testing.T) {
	tests := []struct {
		status int
		fields string
		after  time.Duration
	}{
		{202, "Retry-After: 5", 0}, // when to ask for the result, not when to ask again
		{429, "Retry-After: 5", 5 * time.Second},
		{502, "Retry-After: 5", 5 * time.Second},
	}
	for _, tt := range tests {
		o := Read(tt.status, lines(tt.fields+"\nRateLimit: \"a\";r=3;t=4\nRateLimit-Policy: \"a\";q=5;w=6"), t0).Report()
		if o.After != tt.after {
			t.Errorf("Read(%d, %q).Report().After = %v; want %v", tt.status, tt.fields, o.After, tt.after)
		}
		h := o.Hints
		if h.Remaining != pace.Some[int64](3) || h.Limit != pace.Some[int64](5) || h.Window != pace.Some(6*time.Second) || !h.Reset.OK {
			t.Errorf("Read(%d).Report().Hints = %+v; want 3 of 5 in 6 s", tt.status, h)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second,
		-1: 0, -1500 * time.Millisecond: -time.Second, pace.Never: pace.Never.Truncate(time.Second),
	} {
		if got := Seconds(d); got != want {
			t.Errorf("Seconds(%d) = %d; want %d", d, got, want)
		}
	}
}
