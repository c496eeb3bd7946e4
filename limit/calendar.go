package limit

import (
	"math"
	"time"
)

const (
	// Week is the Period of a CalendarWindow that begins on Mondays.
	Week = 7 * 24 * time.Hour
	// Month is the Period of a CalendarWindow that begins on the first of each
	// month. Three of them are a quarter, twelve a year. It is as long as the
	// longest month, so that 28 or 30 days are rounded up to one month, 365 to
	// twelve.
	Month = 31 * 24 * time.Hour
)

// calendarEnd is the end of the calendar window that holds now: the first
// instant at which the clocks of the zone show the next minute, hour, day, week
// or month. A day on which they are put forward has 23 hours, one on which they
// are put back 25. Where midnight is left out, the day begins with the first
// time there is.
func calendarEnd(now int64, period time.Duration, zone *time.Location) int64 {
	if zone == nil {
		zone = time.UTC
	}
	t := time.UnixMicro(now).In(zone)
	year, month, date := t.Date()
	switch {
	case period <= time.Minute:
		return clockEnd(t, 60)
	case period <= time.Hour:
		return clockEnd(t, 3600)
	case period <= 24*time.Hour:
		date++
	case period <= Week:
		date += 7 - (int(t.Weekday())+6)%7 // days since Monday
	default:
		months, width := year*12+int(month)-1, monthsIn(period)
		into := (months%width + width) % width
		year, month, date = 0, time.Month(months-into+width+1), 1
	}
	return shows(t, time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Unix())
}

// monthsIn is how many Months a period is, rounded up, at most 286 years.
func monthsIn(period time.Duration) int { return int(min((period-1)/Month+1, math.MaxInt64/Month)) }

// calendarUnit is the Period of the windows that a CalendarWindow of another
// Period has.
func calendarUnit(period time.Duration) time.Duration {
	for _, unit := range [...]time.Duration{time.Minute, time.Hour, 24 * time.Hour, Week} {
		if period <= unit {
			return unit
		}
	}
	return time.Duration(monthsIn(period)) * Month
}

// zoneName is the name of a Limit.Zone.
func zoneName(zone *time.Location) string {
	if zone == nil {
		return "UTC"
	}
	return zone.String()
}

// clockEnd is the next full minute or hour, a unit being its seconds. An hour
// that is passed through twice, as clocks are put back, is two windows; one
// that clocks are put forward or back within is cut there.
func clockEnd(t time.Time, unit int64) int64 {
	_, offset := t.Zone()
	local := t.Unix() + int64(offset)
	into := (local%unit + unit) % unit
	end := t.Unix() + unit - into
	if _, change := t.ZoneBounds(); !change.IsZero() && change.Unix() < end {
		if _, after := change.Zone(); int64(after-offset)%unit != 0 {
			end = change.Unix()
		}
	}
	return seconds(end)
}

// shows is the first instant after t at which the clocks of its zone show what
// those of UTC show at wall, in seconds of Unix time, or a later time.
func shows(t time.Time, wall int64) int64 {
	for {
		_, offset := t.Zone()
		_, change := t.ZoneBounds()
		at := wall - int64(offset)
		if !change.IsZero() && !change.After(t) { // so says Go on the last day of leap years after 2037
			change = t.Add(time.Hour)
		}
		if change.IsZero() || at < change.Unix() {
			return seconds(max(at, t.Unix()))
		}
		t = change
	}
}

// seconds are those of Unix time in microseconds, or the end of time.
func seconds(s int64) int64 {
	if s > math.MaxInt64/1_000_000 {
		return math.MaxInt64
	}
	return s * 1_000_000
}

// calendarLatest is the furthest end that an honest state could have, which is
// that of the next window. It is worked out only if end may be beyond it: but
// for an hour that is cut, no window is an eighth shorter than its Period.
func calendarLatest(end, now int64, period time.Duration, zone *time.Location) int64 {
	if end <= later(now, int64((period-period/8)/time.Microsecond)) {
		return math.MaxInt64
	}
	return calendarEnd(calendarEnd(now, period, zone), period, zone)
}
