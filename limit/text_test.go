package limit

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	zones := func(name string) (*time.Location, error) {
		if name == "Europe/Berlin" {
			return berlin, nil
		}
		return time.LoadLocation(name)
	}
	for _, c := range []struct {
		text  string
		limit Limit
		again string // as String writes it, if not as text
	}{
		{"unlimited", Limit{}, ""},
		{"100/s", Limit{Count: 100, Period: time.Second}, ""},
		{"0/s", Limit{Period: time.Second}, ""},
		{"100/s burst 200", Limit{Count: 100, Period: time.Second, Burst: 200}, ""},
		{"100/1m gcra burst 200", Limit{Count: 100, Period: time.Minute, Burst: 200}, "100/min burst 200"},
		{"100/10s leaky-bucket", Limit{Count: 100, Period: 10 * time.Second}, "100/10s"},
		{"5000/h fixed-window", Limit{Kind: FixedWindow, Count: 5000, Period: time.Hour}, ""},
		{"5000/day first-hit-window", Limit{Kind: FirstHitWindow, Count: 5000, Period: day}, ""},
		{"10/90s sliding-log", Limit{Kind: SlidingLog, Count: 10, Period: 90 * time.Second}, ""},
		{"1000/60min sliding-window", Limit{Kind: SlidingWindow, Count: 1000, Period: time.Hour}, "1000/h sliding-window"},
		{"7/week sliding-slots", Limit{Kind: SlidingSlots, Count: 7, Period: Week}, "7/week sliding-slots"},
		{"7/3us sliding-slots 60", Limit{Kind: SlidingSlots, Count: 7, Period: 3 * us, Slots: 60}, ""},
		{"7/s sliding-slots 1", Limit{Kind: SlidingSlots, Count: 7, Period: time.Second, Slots: 1}, ""},
		{"0.5/s", Limit{Count: 1, Period: 2 * time.Second}, "1/2s"},
		{"2.5/s", Limit{Count: 5, Period: 2 * time.Second, Burst: 3}, "5/2s burst 3"},
		{"2.5/10s gcra", Limit{Count: 5, Period: 20 * time.Second, Burst: 3}, "5/20s burst 3"},
		{"2.5/s burst 9", Limit{Count: 5, Period: 2 * time.Second, Burst: 9}, "5/2s burst 9"},
		{"2.0/s", Limit{Count: 2, Period: time.Second}, "2/s"},
		{"0.333333/s", Limit{Count: 333333, Period: 1_000_000 * time.Second, Burst: 1}, "333333/1000000s burst 1"},
		{"9223372036854.775807/s", Limit{Count: 1<<63 - 1, Period: 1_000_000 * time.Second, Burst: 9223372036855}, "9223372036854775807/1000000s burst 9223372036855"},
		{"1.5/min fixed-window", Limit{Kind: FixedWindow, Count: 3, Period: 2 * time.Minute}, "3/2min fixed-window"},
		{"7/1500ns", Limit{Count: 7, Period: 1500}, ""},
		{"5000/month calendar", Limit{Kind: CalendarWindow, Count: 5000, Period: Month}, "5000/month calendar-window"},
		{"1/week calendar-window UTC", Limit{Kind: CalendarWindow, Count: 1, Period: Week}, "1/week calendar-window"},
		{"5/3month calendar-window Europe/Berlin", Limit{Kind: CalendarWindow, Count: 5, Period: 3 * Month, Zone: berlin}, ""},
	} {
		l, err := Parse(c.text, zones)
		if l != c.limit || err != nil {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", c.text, l, err, c.limit)
		}
		if c.again == "" {
			c.again = c.text
		}
		if got := c.limit.String(); got != c.again {
			t.Errorf("%q is written %q, want %q", c.text, got, c.again)
		}
	}
}

// What is ignored, or counts as something else, is written as what it is.
func TestLimitString(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		want  string
	}{
		{Limit{Kind: FixedWindow, Count: 7, Burst: 9}, "unlimited"},
		{Limit{Count: -7, Period: time.Second, Burst: -1, Slots: 9, Zone: time.UTC}, "0/s"},
		{Limit{Kind: 99, Count: 7, Period: time.Second}, "7/s"},
		{Limit{Kind: FixedWindow, Count: 7, Period: time.Second, Burst: 9}, "7/s fixed-window"},
		{Limit{Kind: SlidingSlots, Count: 7, Period: time.Second, Slots: 1 << 30}, "7/s sliding-slots 1000"},
		{Limit{Kind: CalendarWindow, Count: 7, Period: time.Second, Zone: time.UTC}, "7/min calendar-window"},
		{Limit{Kind: CalendarWindow, Count: 7, Period: 365 * day}, "7/12month calendar-window"},
	} {
		if got := c.limit.String(); got != c.want {
			t.Errorf("%#v is written %q, want %q", c.limit, got, c.want)
		}
	}
}

func TestParseBad(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"", "has no '/'"},
		{"none", "has no '/'"},
		{" 3/h", `limit: " 3/h": there is a blank before COUNT or in the rate`},
		{"3 / h", "there is a blank before COUNT or in the rate"},
		{"3 /h", "there is a blank before COUNT or in the rate"},
		{"3 h", "has no '/'"},
		{"3/h burst", "the burst is not a whole number above zero"},
		{"NaN/s", "COUNT"},
		{"-1/s", "COUNT"},
		{"1.5.5/s", "COUNT"},
		{"1/0s", "above zero"},
		{"1/fortnight", "UNIT"},
		{"100/mn", "UNIT is none of ms, s, min, h, day, week and month"},
		{"1/s ", "an extra blank after the rate"},
		{"3/h  burst 5", "an extra blank after the rate"},
		{"3/h burst  5", "an extra blank after the rate"},
		{"3/h burst 5 ", "an extra blank after the rate"},
		{"1/month calendar  UTC", "an extra blank after the rate"},
		{"1/fortnight  burst 5", "UNIT"},
		{"1/s fixed-windows", "neither burst nor a kind"},
		{"1/s burst", "the burst is not a whole number above zero"},
		{"1/s burst 0", "the burst"},
		{"1/s burst NaN", "the burst"},
		{"1/s burst 5 5", "too much"},
		{"1/s fixed-window burst 5", "too much"},
		{"1/s sliding-slots 0", "the slots"},
		{"1/s sliding-slots 1001", "from 1 to 1000"},
		{"1/s sliding-slots x", "the slots"},
		{"1/s calendar", "a calendar window is"},
		{"1/2day calendar", "a calendar window is"},
		{"1/month", "a month is"},
		{"1/2month fixed-window", "a month is"},
		{"5000000/h sliding-log", "counts up to 1000000"},
		{"1000001/h sliding-log", "counts up to"},
		{"0.1234567/s", "at most 6 decimals"},
		{"0.3/day calendar", "a calendar window is"},
		{"1/month calendar ", "an extra blank after the rate"},
		{"1/month calendar Europe/Berlln", `"Europe/Berlln" is not known`},
		{"1/month calendar ../../etc/passwd", "is not known"},
		{"1/month calendar Europe/Berlin x", "too much"},
		{strings.Repeat("9", 1000), "has no '/'"},
		{"1/s " + strings.Repeat("x", 1000), "neither"},
		{"1/s \n\x1b[2J", "neither"},
	} {
		l, err := Parse(c.text, time.LoadLocation)
		if l.Unlimited() || l.Max() != 0 || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Parse(%q) = %v, %v; want it to say %q", c.text, l, err, c.says)
			continue
		}
		checkLimitError(t, c.text, err)
	}
	if _, err := Parse("1/day calendar Europe/Berlin", nil); err == nil || !strings.Contains(err.Error(), "but UTC") {
		t.Errorf("without zones: %v", err)
	}
}

func checkLimitError(t *testing.T, text string, err error) {
	t.Helper()
	line := err.Error()
	if strings.ContainsAny(line, "\r\n\x1b") || len(line) > 700 || !strings.Contains(line, "100/s burst 200") {
		t.Errorf("Parse(%q): %q is not one clear line", text, line)
	}
}

// canon is the limit that decides as l does, with nothing in it that is ignored.
func canon(l Limit) Limit {
	if l.Unlimited() {
		return Limit{}
	}
	c := Limit{Count: max(l.Count, 0), Period: l.Period}
	if l.Kind < unknownKind {
		c.Kind = l.Kind
	}
	switch c.Kind {
	case TokenBucket:
		c.Burst = max(l.Burst, 0)
	case SlidingLog:
		c.Count = min(c.Count, MaxLog)
	case SlidingSlots:
		c.Slots = min(max(l.Slots, 0), MaxSlots)
	case CalendarWindow:
		c.Period = calendarUnit(l.Period)
		if zoneName(l.Zone) != "UTC" {
			c.Zone = l.Zone
		}
	}
	return c
}

// FuzzLimitString: what String writes, Parse reads.
func FuzzLimitString(f *testing.F) {
	f.Add(uint8(0), int64(5), int64(7), int64(time.Second), int32(3), false)
	f.Add(uint8(CalendarWindow), int64(5), int64(7), int64(Month), int32(3), true)
	f.Add(uint8(CalendarWindow), int64(-5), int64(7), int64(1<<63-1), int32(3), true)
	f.Add(uint8(SlidingSlots), int64(5), int64(-7), int64(1), int32(-3), false)
	f.Add(uint8(TokenBucket), int64(1<<63-1), int64(1<<63-1), int64(1<<63-1), int32(1<<31-1), false)
	f.Add(uint8(SlidingLog), int64(1<<63-1), int64(0), int64(time.Second), int32(0), false)
	berlin := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, kind uint8, count, burst, period int64, slots int32, zoned bool) {
		l := Limit{Kind: Kind(kind), Count: count, Burst: burst, Period: time.Duration(period), Slots: slots}
		if zoned {
			l.Zone = berlin
		}
		got, err := Parse(l.String(), func(string) (*time.Location, error) { return berlin, nil })
		if err != nil || got != canon(l) {
			t.Fatalf("Parse(%q) = %#v, %v; want %#v", l.String(), got, err, canon(l))
		}
	})
}

// FuzzParse: whatever the text, one line of complaint or a limit that String
// writes such that it is read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"100/s burst 200", "1/week calendar Europe/Berlin", "7/s sliding-slots 7", "unlimited", "1/s \x00", "0/0s"} {
		f.Add(text)
	}
	berlin := zone(f, "Europe/Berlin")
	zones := func(name string) (*time.Location, error) {
		if name == "Europe/Berlin" {
			return berlin, nil
		}
		return nil, strings.NewReader("").UnreadByte()
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text, zones)
		if err != nil {
			checkLimitError(t, text, err)
			return
		}
		if again, err := Parse(l.String(), zones); err != nil || again != l {
			t.Fatalf("Parse(%q) = %#v, again %#v, %v", text, l, again, err)
		}
	})
}

func TestParseKind(t *testing.T) {
	for k := range Kind(unknownKind) {
		if got, err := ParseKind(k.String()); got != k || err != nil || k.String() == "" {
			t.Errorf("ParseKind(%q) = %v, %v", k.String(), got, err)
		}
	}
	for text, want := range map[string]Kind{"gcra": TokenBucket, "leaky-bucket": TokenBucket, "calendar": CalendarWindow} {
		if got, err := ParseKind(text); got != want || err != nil {
			t.Errorf("ParseKind(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "unknown", "Token-Bucket", "token bucket\n", strings.Repeat("x", 1000)} {
		got, err := ParseKind(text)
		if err == nil || got != TokenBucket || !strings.Contains(err.Error(), "sliding-slots") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("ParseKind(%q) = %v, %v; want one line that names them all", text, got, err)
		}
	}
	if got := Kind(unknownKind).String(); got != "unknown" {
		t.Errorf("a Kind that is not known is written %q", got)
	}
}
