package pace

import (
	"math"
	"testing"
	"time"
)

// hourly returns a server of a hundred requests in each hour.
func hourly() func(s float64) Verdict {
	hour, left := -1, 0
	return func(s float64) Verdict {
		if now := int(s / 3600); now != hour {
			hour, left = now, 100
		}
		if left == 0 {
			return Throttled
		}
		left--
		return Served
	}
}

// While the rate comes back to base after a row, base does not grow: neither where the
// estimate is as young as its first window, nor where the way back takes minutes.
func TestNothingGrowsUntilTheRateIsBack(t *testing.T) {
	away := func(s float64) Verdict {
		if s < 600 {
			return Throttled
		}
		return Served
	}
	for _, c := range []struct {
		name   string
		a      *Adaptive
		server func(s float64) Verdict
		end    float64
	}{{"young", &Adaptive{Blind: true}, hourly(), 3900}, {"old", known(1000, mostTrust), away, 700}} {
		served := 0
		ask(c.a, 0, c.end, 0.02, c.server, func(s float64, v Verdict) {
			if served++; v == Throttled {
				served = 0
			}
			if rate := c.a.rate(s); served > 0 && served < 60 && c.a.on && c.a.refused == 0 && rate > 1.3*c.a.base {
				t.Fatalf("%s: at %.1f s, after %d served, the rate is %.3g a second, and base %.3g", c.name, s, served, rate, c.a.base)
			}
		})
	}
}

// No row makes T longer than two hours, whatever Probe is.
func TestLongestT(t *testing.T) {
	a := known(0.01, mostTrust)
	a.Probe = 24 * time.Hour
	a.cut(0)
	a.resume(48 * 3600)
	if a.period > longestT {
		t.Errorf("T is %v s after a row of two days, want %v at most", a.period, longestT)
	}
}

// The time of growth is at most twice what was served would have taken at base, but for a
// lead.
func TestGrowthTakesRequests(t *testing.T) {
	a := known(2, mostTrust)
	for _, c := range []struct{ served, at, lead, want float64 }{
		{0, 0.25, 0, 0.25},
		{0, 100, 0, 1},
		{19, 100, 0, 20},
		{400, 100, 0, 100},
		{0, 100, 30, 31},
	} {
		a.accepted, a.resumedAt = c.served, -c.lead
		if got := a.elapsed(c.at); got != c.want {
			t.Errorf("%v s after a row, %v served at 2/s, with a lead of %v s: %v s of growth, want %v", c.at, c.served, c.lead, got, c.want)
		}
	}
}

// A row is likely to be as long as the last: further ones cost few tries.
func TestRowsLikeTheLastCostFewTries(t *testing.T) {
	a := &Adaptive{Blind: true}
	var refused [6]int
	ask(a, 0, 6*3600, 0.02, hourly(), func(s float64, v Verdict) {
		if v == Throttled {
			refused[min(int(s/3600), 5)]++
		}
	})
	t.Logf("refused in each hour: %v", refused)
	for hour, n := range refused[1:] {
		if n > 25 {
			t.Errorf("refused %d times in hour %d, want at most 25", n, hour+2)
		}
	}
}

// After two rows that are not short T is as long as they were, for all whom a window shuts
// out, whatever their rates.
func TestPeriodAfterLikeRows(t *testing.T) {
	for _, c := range []struct{ rate, dead, then, want float64 }{
		{8, 400, 300, 400},
		{1, 400, 300, 400},
		{8, 400, 100, 200},
		{8, 400, 0, 60 * math.Pow(usualRate/8, probePower)},
	} {
		a := known(c.rate, mostTrust)
		a.cut(1e6)
		a.lastRow = c.then
		a.resume(1e6 + c.dead)
		if math.Abs(a.period/c.want-1) > 1e-6 {
			t.Errorf("%v/s, a row of %v s after one of %v s: T is %.1f s, want %.1f", c.rate, c.dead, c.then, a.period, c.want)
		}
	}
}

// In a row that lasts the tries become as far apart as an eighth of it, in the next as an
// eighth of this one.
func TestTriesOfALongRow(t *testing.T) {
	for _, c := range []struct{ dead, seconds, least, most float64 }{
		{0, 60, 11, 16},
		{0, 3600, 25, 40},
		{3600, 3600, 14, 26},
	} {
		a := known(10, mostTrust)
		a.lastRow = c.dead
		tries := 0.0
		ask(a, 0, c.seconds, 0.02, func(float64) Verdict { return Throttled }, func(float64, Verdict) { tries++ })
		if t.Logf("%v tries in %v s after a row of %v s", tries, c.seconds, c.dead); tries > c.most || tries < c.least {
			t.Errorf("%v tries in %v s after a row of %v s, want %v to %v", tries, c.seconds, c.dead, c.least, c.most)
		}
	}
}

// Who leaves a row to the law without hints knows still how long rows are.
func TestRowsAreKnownWithoutTheLevel(t *testing.T) {
	a := known(10, mostTrust)
	a.lastRow, a.rowBefore, a.level.thetaBefore = 3000, 2000, 10
	if a.awayFrom(100); a.lastRow != 3000 || a.rowBefore != 2000 {
		t.Errorf("rows of %v s and %v s, want 3000 and 2000", a.lastRow, a.rowBefore)
	}
}

// Rows that end a whole number of windows apart are a fixed window's. An opening is known as
// well as the tries around it are close together, so one that is vague proves nothing.
func TestCycle(t *testing.T) {
	type opening struct{ from, to float64 }
	for _, c := range []struct {
		name     string
		openings []opening
		every    float64 // about
		steady   bool    // after the last
	}{
		{"one row says nothing", []opening{{590, 600}}, 0, false},
		{"two rows are no cycle yet", []opening{{590, 600}, {1195, 1205}}, 605, false},
		{"three rows a window apart", []opening{{590, 600}, {1195, 1205}, {1790, 1802}}, 600, true},
		{"a window without a row", []opening{{590, 600}, {1195, 1205}, {2398, 2405}}, 602, true},
		{"half a window after the last", []opening{{590, 600}, {1195, 1205}, {1500, 1505}}, 302, false},
		{"rows that are out of step", []opening{{590, 600}, {1195, 1205}, {2050, 2060}}, 855, false},
		{"tries too far apart", []opening{{590, 600}, {1195, 1205}, {1500, 1900}}, 500, false},
		{"a row in the middle halves it for good", []opening{{0, 10}, {590, 600}, {900, 910}, {1500, 1510}, {2100, 2110}}, 300, true},
	} {
		var y cycle
		steady := false
		for _, o := range c.openings {
			steady = y.opens(o.from, o.to)
		}
		if steady != c.steady || math.Abs(y.every-c.every) > 8 {
			t.Errorf("%s: every %.0f s, steady %v, want %.0f, %v", c.name, y.every, steady, c.every, c.steady)
		}
	}
}

// In a fixed window base is the rate at which it was used up, less the part of the window in
// which nothing was left: what was served from row to row is less, as what one window does
// not use the next does not give. T is a window, longer for who was served more.
func TestBaseAndPeriodInAWindow(t *testing.T) {
	const rate = 10.0
	base := func(shut float64) *Adaptive {
		a := known(rate, mostTrust)
		for window := range 4 { // from the start of each to its end, of which the last part is shut
			open := 600*float64(window) + 600 - shut
			a.accepted, a.period, a.base = rate*120, 1e4, rate // little was served
			a.throttled(open, open)
			a.roundAt = 600*float64(window+1) - 1 // the last try that was refused
			a.resume(600 * float64(window+1))
		}
		return a
	}
	for _, shut := range []float64{60, 300} {
		a := base(shut)
		if want := rate * math.Exp(-usualCut) * (1 - shut/600); math.Abs(a.base/want-1) > 0.03 {
			t.Errorf("shut for %.0f s of 600: base %.2f, want %.2f a second", shut, a.base, want)
		}
		if a.period < 600 || a.period > 1200.1 {
			t.Errorf("shut for %.0f s of 600: T %.0f s, want one to two windows", shut, a.period)
		}
	}
}
