package throttlepage

import (
	"math"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		"0/s": perTime(0), "5/s": perTime(5), "0.5": digits(0.5), "30/min": perTime(0.5), "1/min": perTime(1.0 / 60), "36/h": perTime(0.01), "12.3/s": perTime(12.345),
		"1,000/s": perTime(999.9999999), "12,346/s": perTime(12345.6), "1e+300/s": perTime(1e300), "1.8e+308/s": perTime(finite(math.Inf(1))), "0/s ": perTime(finite(math.NaN())) + " ",
		"0": whole(0), "-1": whole(-1), "-123": whole(-123), "-1,234": whole(-1234), "999": whole(999), "1,234,567": whole(1234567), "-9,223,372,036,854,775,808": whole(math.MinInt64),
		"0 s": lasting(-time.Hour), "less than 1 ms": lasting(time.Microsecond), "1 ms": lasting(1499 * time.Microsecond), "999 ms": lasting(999 * time.Millisecond),
		"1.0 s": lasting(time.Second - 1), "9.9 s": lasting(9949 * time.Millisecond), "10 s": lasting(9950 * time.Millisecond), "119 s": lasting(119 * time.Second),
		"2 min": lasting(2*time.Minute - 1), "10 min": lasting(9*time.Minute + 58*time.Second), "119 min": lasting(119 * time.Minute), "2 h 0 min": lasting(2*time.Hour - 1),
		"48 h 0 min": lasting(48*time.Hour - 1), "2 days": lasting(48 * time.Hour), "104166 days": lasting(span(1e300)), "0 s ": lasting(span(math.NaN())) + " ",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
