package limit

import (
	"strings"
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for _, c := range []struct {
		text   string
		count  int64
		period time.Duration
	}{
		{"4/s", 4, time.Second},
		{"75/min", 75, time.Minute},
		{"600/1m", 600, time.Minute},
		{"100/10s", 100, 10 * time.Second},
		{"5000/h", 5000, time.Hour},
		{"5000/24hour", 5000, day},
		{"1/day", 1, day},
		{"1/7d", 1, 7 * day},
		{"3/250ms", 3, 250 * ms},
		{"007/007sec", 7, 7 * time.Second},
		{"1/second", 1, time.Second},
		{"1/minute", 1, time.Minute},
		{"0/s", 0, time.Second},
		{"0.5/s", 1, 2 * time.Second},
		{"2.5/s", 5, 2 * time.Second},
		{"0.000001/ms", 1, 1000 * time.Second},
		{"1.250/10min", 5, 40 * time.Minute},
		{"3.0/h", 3, time.Hour},
		{"0.0/s", 0, time.Second},
		{"9223372036854775807/106751d", 1<<63 - 1, 106751 * day},
	} {
		count, period, err := ParseRate(c.text)
		if count != c.count || period != c.period || err != nil {
			t.Errorf("ParseRate(%q) = %d, %v, %v; want %d, %v", c.text, count, period, err, c.count, c.period)
		}
	}
}

func TestParseRateBad(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"", "has no '/'"},
		{"4", "has no '/'"},
		{"4 per s", "has no '/'"},
		{"/s", "COUNT"},
		{"x/s", "COUNT"},
		{"-1/s", "COUNT"},
		{"+1/s", "COUNT"},
		{"-0/s", "COUNT"},
		{".5/s", "COUNT"},
		{"5./s", "COUNT"},
		{"0.1234567/s", "COUNT"},
		{"1e-1/s", "COUNT"},
		{"0.000001/292d", "the period is longer than 292 years"},
		{"1_000/s", "COUNT"},
		{"1e3/s", "COUNT"},
		{" 1/s", "COUNT"},
		{"٣/s", "COUNT"},
		{"9223372036854775808/s", "COUNT"},
		{"4/", "UNIT"},
		{"4/ s", "UNIT"},
		{"4/S", "UNIT"},
		{"4/s ", "UNIT"},
		{"4/s/s", "UNIT"},
		{"4/week", "UNIT"},
		{"4/10", "UNIT"},
		{"4/-1s", "UNIT"},
		{"4/1.5s", "UNIT"},
		{"4/0s", "above zero"},
		{"4/00000s", "above zero"},
		{"4/9223372036854775808s", "above zero"},
		{"4/106752d", "292 years"},
		{"4/9223372036854775807ms", "292 years"},
		{"4\n/s", "COUNT"},
		{strings.Repeat("9", 1000) + "/s", "COUNT"},
	} {
		count, period, err := ParseRate(c.text)
		if err == nil || count != 0 || period <= 0 {
			t.Errorf("ParseRate(%q) = %d, %v, %v; want an error", c.text, count, period, err)
			continue
		}
		checkRateError(t, c.text, err)
		if !strings.Contains(err.Error(), c.says+" ") && !strings.Contains(err.Error(), c.says+";") {
			t.Errorf("ParseRate(%q): %v; want it to say %q", c.text, err, c.says)
		}
	}
}

// checkRateError wants one line, not too long, that says what would be right.
func checkRateError(t *testing.T, text string, err error) {
	t.Helper()
	line := err.Error()
	if strings.ContainsAny(line, "\r\n\x1b") || len(line) > 600 || !strings.Contains(line, "4/s") {
		t.Errorf("ParseRate(%q): %q is not one clear line", text, line)
	}
}

func FuzzParseRate(f *testing.F) {
	for _, text := range []string{"4/s", "600/1m", "0/0s", "-1/s", "9223372036854775807/106751d", "4/\x00", "\xff/\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		count, period, err := ParseRate(text)
		switch {
		case err != nil:
			checkRateError(t, text, err)
		case count < 0 || period <= 0:
			t.Errorf("ParseRate(%q) = %d, %v", text, count, period)
		}
	})
}
