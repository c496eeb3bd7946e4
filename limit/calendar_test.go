package limit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // so that the zones are there wherever the tests run
)

// zone is a zone by its name.
func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestCalendarEnd(t *testing.T) {
	for _, c := range []struct {
		zone   string
		period time.Duration
		now    string
		end    string
	}{
		{"UTC", time.Minute, "2026-03-04T10:20:30Z", "2026-03-04T10:21:00Z"},
		{"UTC", time.Minute, "2026-03-04T10:21:00Z", "2026-03-04T10:22:00Z"},
		{"UTC", time.Hour, "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"},
		{"UTC", day, "2028-02-28T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"UTC", Week, "2026-03-04T10:20:30Z", "2026-03-09T00:00:00Z"}, // a Wednesday
		{"UTC", Week, "2026-03-08T23:59:59Z", "2026-03-09T00:00:00Z"}, // a Sunday
		{"UTC", Week, "2026-03-09T00:00:00Z", "2026-03-16T00:00:00Z"}, // a Monday
		{"UTC", Month, "2028-02-10T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"UTC", Month, "2026-12-10T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"UTC", 3 * Month, "2026-05-10T00:00:00Z", "2026-07-01T00:00:00Z"},
		{"UTC", 365 * day, "2026-05-10T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"UTC", 2 * day, "2026-03-04T10:20:30Z", "2026-03-09T00:00:00Z"}, // rounded up to a week
		{"UTC", Month, "0001-12-31T23:00:00Z", "0002-01-01T00:00:00Z"},
		{"UTC", Month, "-0003-01-01T00:00:00Z", "-0003-02-01T00:00:00Z"},
		{"Asia/Kolkata", time.Hour, "2026-03-04T10:20:30+05:30", "2026-03-04T11:00:00+05:30"},
		{"Asia/Kolkata", Month, "2026-03-31T18:29:59Z", "2026-03-31T18:30:00Z"},
		{"Asia/Kolkata", Month, "2026-03-31T18:30:00Z", "2026-04-30T18:30:00Z"},
		// Clocks are put forward: 23 hours; back: 25.
		{"Europe/Berlin", day, "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"Europe/Berlin", day, "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"Europe/Berlin", Week, "2026-03-25T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"Europe/Berlin", Month, "2026-03-29T00:00:00+01:00", "2026-04-01T00:00:00+02:00"},
		{"Europe/Berlin", time.Hour, "2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", time.Hour, "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"Europe/Berlin", time.Hour, "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"},
		// Midnight is left out, and comes twice.
		{"America/Sao_Paulo", day, "2017-10-14T12:00:00-03:00", "2017-10-15T01:00:00-02:00"},
		{"America/Sao_Paulo", day, "2017-10-15T01:00:00-02:00", "2017-10-16T00:00:00-02:00"},
		{"America/Sao_Paulo", day, "2018-02-17T12:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"America/Sao_Paulo", day, "2018-02-17T23:30:00-03:00", "2018-02-18T00:00:00-03:00"},
		// A day is left out.
		{"Pacific/Apia", day, "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"Pacific/Apia", Month, "2011-12-29T12:00:00-10:00", "2012-01-01T00:00:00+14:00"},
		// By half an hour.
		{"Australia/Lord_Howe", time.Hour, "2026-04-05T01:40:00+11:00", "2026-04-05T02:00:00+11:00"},
		{"Australia/Lord_Howe", time.Hour, "2026-04-05T01:40:00+10:30", "2026-04-05T02:00:00+10:30"},
		{"America/Caracas", time.Hour, "2016-05-01T02:10:00-04:30", "2016-05-01T03:00:00-04:00"},
		{"America/Caracas", time.Hour, "2016-05-01T03:00:00-04:00", "2016-05-01T04:00:00-04:00"},
		{"Australia/Lord_Howe", time.Hour, "2026-10-04T02:40:00+11:00", "2026-10-04T03:00:00+11:00"},
	} {
		at := func(text string) time.Time {
			if text[0] == '-' { // which time.Parse does not read
				x := must(time.Parse(time.RFC3339, text[1:]))
				return time.Date(-x.Year(), x.Month(), x.Day(), x.Hour(), 0, 0, 0, time.UTC)
			}
			return must(time.Parse(time.RFC3339, text))
		}
		z := zone(t, c.zone)
		got := time.UnixMicro(calendarEnd(at(c.now).UnixMicro(), c.period, z))
		if !got.Equal(at(c.end)) {
			t.Errorf("%s, %v: %s is in the window that ends %s, want %s", c.zone, c.period, c.now, got.In(z).Format(time.RFC3339), c.end)
		}
	}
}

func must(t time.Time, err error) time.Time {
	if err != nil {
		panic(err)
	}
	return t
}

// naiveLabel is what a calendar shows of the window that t is in.
func naiveLabel(t time.Time, period time.Duration) [3]int {
	y, m, d := t.Date()
	switch period {
	case day:
		return [3]int{y, int(m), d}
	case Week:
		y, w := t.ISOWeek()
		return [3]int{y, w}
	case Month:
		return [3]int{y, int(m)}
	}
	return [3]int{y, (int(m) - 1) / 3}
}

// Days, weeks, months and quarters end when the calendar on the wall shows
// another, found by going through the quarters of the hours one by one.
func TestCalendarAgainstTheWall(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu",
		"Australia/Lord_Howe", "America/Caracas", "Africa/Casablanca", "Pacific/Kwajalein", "Antarctica/Troll",
	} {
		z := zone(t, name)
		for _, period := range []time.Duration{day, Week, Month, 3 * Month} {
			for range 40 {
				now := time.Date(1993+r.IntN(50), 1, 1, 0, 0, r.IntN(366*86400), r.IntN(1e9), z)
				label, want := naiveLabel(now, period), now.Truncate(15*time.Minute)
				for naiveLabel(want, period) == label || !want.After(now) {
					want = want.Add(15 * time.Minute)
				}
				if got := time.UnixMicro(calendarEnd(now.UnixMicro(), period, z)); !got.Equal(want) {
					t.Errorf("%s, %v: %v is in the window that ends %v, want %v", name, period, now, got.In(z), want)
				}
			}
		}
	}
}

// FuzzCalendarEnd: windows follow each other without gap or overlap, in every
// zone and at every time.
func FuzzCalendarEnd(f *testing.F) {
	zones := []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Australia/Lord_Howe", "America/Caracas"}
	for i := range zones {
		f.Add(t0.UnixMicro(), int64(i)*int64(day), byte(i), uint32(7))
		f.Add(int64(math.MaxInt64), int64(math.MaxInt64), byte(i), uint32(math.MaxUint32))
		f.Add(int64(math.MinInt64), int64(1), byte(i), uint32(math.MaxUint32))
	}
	f.Fuzz(func(t *testing.T, now, period int64, which byte, later uint32) {
		z, p := zone(t, zones[int(which)%len(zones)]), time.Duration(max(period, 1))
		end := calendarEnd(now, p, z)
		if end <= now && now != math.MaxInt64 {
			t.Fatalf("%v: %d is in the window that ends %d", p, now, end)
		}
		inside := now + int64(later)
		if now > math.MaxInt64-int64(later) || inside >= end {
			inside = end - 1
		}
		// Before 1970 zones have odd seconds, and midnights that came twice.
		if again := calendarEnd(inside, p, z); again != end && now > 0 {
			t.Fatalf("%v: %d is in the window that ends %d, %d in it in one that ends %d", p, now, end, inside, again)
		}
		if unit := calendarUnit(p); calendarEnd(now, unit, z) != end || unit < p && monthsIn(p) < 3000 {
			t.Fatalf("%v counts as %v", p, unit)
		}
	})
}

func TestTakeCalendarWindow(t *testing.T) {
	run(t, Limit{Kind: CalendarWindow, Count: 3, Period: Month, Zone: time.FixedZone("later", -3600)}, []row{
		{0, n(2), want{true, 2, 1, 0, 28*day + time.Hour}}, // from the 4th of March
		{day, n(2), want{false, 0, 1, 27*day + time.Hour, 27*day + time.Hour}},
		{day, n(4), want{false, 0, 1, Never, 27*day + time.Hour}},
		{28*day + time.Hour - us, debt(4), want{true, 4, 0, 0, us}},
		{28*day + time.Hour, part(1, 9), want{true, 3, 0, 0, 30 * day}},
		{28*day + time.Hour, n(-1), want{true, -1, 1, 0, 30 * day}},
		{58*day + time.Hour, n(0), want{true, 0, 3, 0, 0}},
	})
}

func checkCalendar(t testing.TB, count, period int64, script []byte) int {
	periods := []time.Duration{time.Minute, time.Hour, day, Week, Month, 3 * Month}
	l := Limit{Kind: CalendarWindow, Count: count, Period: periods[period%6]}
	if period%4 > 0 {
		l.Zone = zone(t, []string{"Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia"}[period%4-1])
	}
	p := player{
		TB: t, limit: l, take: takeState(), back: 2 * l.micros(),
		now: t0.UnixMicro() + period%(40*365*24)*int64(time.Hour/us),
	}
	next := func(now int64) int64 { return calendarEnd(now, l.Period, l.Zone) }
	p.naive = &naiveWindow{
		count: count, ends: next,
		latest: func(now int64) int64 { return next(next(now)) },
	}
	p.play(script)
	return p.steps
}

func FuzzCalendarWindow(f *testing.F) { fuzzScripts(f, checkCalendar) }

func TestSoakCalendarWindow(t *testing.T) { soak(t, checkCalendar) }

// In leap years after 2037 Go finds no end of the zone's last rule.
func TestCalendarEndOfLeapYears(t *testing.T) {
	z := zone(t, "Australia/Lord_Howe")
	for year := 2036; year < 2120; year++ {
		want := time.Date(year+1, 1, 1, 0, 0, 0, 0, z)
		for _, now := range []time.Time{time.Date(year, 1, 2, 3, 4, 5, 6, z), time.Date(year, 5, 9, 12, 0, 0, 0, z), time.Date(year, 12, 31, 12, 0, 0, 0, z)} {
			if got := time.UnixMicro(calendarEnd(now.UnixMicro(), 12*Month, z)); !got.Equal(want) {
				t.Errorf("the year of %v ends %v, want %v", now, got.In(z), want)
			}
		}
	}
}
