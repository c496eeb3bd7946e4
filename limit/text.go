package limit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parse reads a Limit as String writes it:
//
//	100/s                            a token bucket, its burst 100
//	100/s burst 200
//	5000/h fixed-window              or any other Kind that ParseKind reads
//	1000/h sliding-slots 60          of 60 slots
//	5000/month calendar-window Europe/Berlin
//	0.5/s                            1/2s: a count may have up to 6 decimals
//	2.5/s                            5/2s burst 3: the count, rounded up
//	0/s                              nothing
//	unlimited
//
// The rate is as in ParseRate, with ns, us and week as further units, and month
// for a calendar window, whose period is a minute, an hour, a day, a week or a
// number of months. zone finds the time zone of a name: pass [time.LoadLocation]
// where files may be read. If nil, it finds UTC alone. The error is one line that
// says what would be right, and the Limit then allows nothing.
func Parse(text string, zone func(name string) (*time.Location, error)) (Limit, error) {
	if text == "unlimited" {
		return Limit{}, nil
	}
	l, what := parseLimit(strings.Split(text, " "), zone)
	if what != "" {
		return nothing, fmt.Errorf("limit: %.60q: %s; write COUNT/[N]UNIT, then burst N or a kind, as in 100/s burst 200, 5000/h sliding-window or 5000/month calendar-window Europe/Berlin, or unlimited", text, what)
	}
	return l, nil
}

// nothing is the limit that comes with an error: code that overlooks the error
// notices that.
var nothing = Limit{Period: time.Second}

// parseLimit reads words. If what is not empty, it says what is wrong.
func parseLimit(words []string, zone func(string) (*time.Location, error)) (l Limit, what string) {
	rate, words := words[0], words[1:]
	if len(words) > 0 && (rate == "" || strings.HasPrefix(words[0], "/")) {
		return l, "there is a blank before COUNT or in the rate"
	}
	if l.Count, l.Period, what = parseRate(rate, limitUnit); what != "" {
		if what == unknownUnit {
			what = "UNIT is none of ms, s, min, h, day, week and month"
		}
		return l, what
	}
	if slices.Contains(words, "") {
		return l, "there is an extra blank after the rate"
	}
	if len(words) > 0 && words[0] != "burst" {
		kind, err := ParseKind(words[0])
		if err != nil {
			return l, fmt.Sprintf("%.40q is neither burst nor a kind", words[0])
		}
		l.Kind, words = kind, words[1:]
	}
	switch {
	case l.Kind == CalendarWindow && calendarUnit(l.Period) != l.Period:
		return l, "a calendar window is a minute, an hour, a day, a week or months"
	case l.Kind != CalendarWindow && strings.HasSuffix(rate, "month"):
		return l, "a month is a unit of calendar windows only"
	case l.Kind == SlidingLog && l.Count > MaxLog:
		return l, fmt.Sprintf("a sliding-log counts up to %d", MaxLog)
	case len(words) == 0 && l.Kind == TokenBucket:
		l.Burst = burstOf(rate, l.Count)
		return l, ""
	case len(words) == 0:
		return l, ""
	}
	return l, l.parseMore(words, zone)
}

// parseMore reads what follows the kind.
func (l *Limit) parseMore(words []string, zone func(string) (*time.Location, error)) (what string) {
	switch {
	case l.Kind == TokenBucket && len(words) <= 2 && words[0] == "burst":
		n, ok := parseDigits(strings.Join(words[1:], ""))
		if l.Burst = n; !ok || n == 0 {
			return "the burst is not a whole number above zero"
		}
		return ""
	case l.Kind == SlidingSlots && len(words) == 1:
		n, ok := parseDigits(words[0])
		if l.Slots = int32(min(n, MaxSlots+1)); !ok || n == 0 || n > MaxSlots {
			return fmt.Sprintf("the slots are not a whole number from 1 to %d", MaxSlots)
		}
		return ""
	case l.Kind == CalendarWindow && len(words) == 1:
		return l.parseZone(words[0], zone)
	}
	return fmt.Sprintf("%.40q is too much", strings.Join(words, " "))
}

func (l *Limit) parseZone(name string, zone func(string) (*time.Location, error)) (what string) {
	var err error
	switch {
	case name == "UTC":
		return ""
	case zone == nil:
		return "no time zone but UTC is known here"
	}
	if l.Zone, err = zone(name); err != nil || l.Zone == nil {
		return fmt.Sprintf("the time zone %.40q is not known", name)
	}
	return ""
}

// units are those that String writes, the longest first.
var units = [...]struct {
	name string
	time.Duration
}{
	{"week", Week},
	{"day", 24 * time.Hour},
	{"h", time.Hour},
	{"min", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"ns", time.Nanosecond},
}

// limitUnit are the units of a limit.
func limitUnit(name string) (unit time.Duration, ok bool) {
	switch name {
	case "ns":
		return time.Nanosecond, true
	case "us":
		return time.Microsecond, true
	case "week":
		return Week, true
	case "month":
		return Month, true
	}
	return unitOf(name)
}

// String returns the limit as Parse reads it. Fields that the Kind ignores are
// left out, and values that count as others are written as those: a Limit that
// is read back decides as the one that was written, provided that its Zone is
// found by its name.
func (l Limit) String() string {
	if l.Unlimited() {
		return "unlimited"
	}
	count := max(l.Count, 0)
	if l.Kind == SlidingLog {
		count = min(count, MaxLog) // what it counts, which Parse reads
	}
	text := strconv.FormatInt(count, 10) + "/" + l.period()
	switch {
	case l.Kind.isBucket() && l.Burst > 0:
		return text + " burst " + strconv.FormatInt(l.Burst, 10)
	case l.Kind.isBucket():
		return text
	case l.Kind == SlidingSlots && l.Slots > 0:
		return text + " " + l.Kind.String() + " " + strconv.Itoa(int(min(l.Slots, MaxSlots)))
	case l.Kind == CalendarWindow && zoneName(l.Zone) != "UTC":
		return text + " " + l.Kind.String() + " " + l.Zone.String()
	}
	return text + " " + l.Kind.String()
}

// period is the Period in the longest unit that it is a multiple of.
func (l *Limit) period() string {
	period := l.Period
	if l.Kind == CalendarWindow {
		switch period = calendarUnit(period); {
		case period == Week:
			return "week"
		case period > Week:
			return times(int64(period/Month), "month")
		}
	}
	for _, unit := range units {
		if period%unit.Duration == 0 {
			return times(int64(period/unit.Duration), unit.name)
		}
	}
	return ""
}

// times is n units, or just the unit.
func times(n int64, unit string) string {
	if n == 1 {
		return unit
	}
	return strconv.FormatInt(n, 10) + unit
}
