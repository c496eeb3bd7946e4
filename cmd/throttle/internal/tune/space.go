package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
)

// space is a policy some of whose settings are searched.
type space struct {
	name  string
	fixed []string // the settings that are not searched: name=value
	dims  []dimension
}

// dimension is one setting that is searched.
type dimension struct {
	name string
	// words, if not empty, are the values; otherwise they lie from low to
	// high, in nanoseconds if they are durations.
	words     []string
	low, high float64
	duration  bool
	whole     bool
}

// wholes are the settings whose whole part alone counts.
var wholes = []string{"attempts", "burst", "limit", "quota", "threshold", "tries"}

// givens are the settings that say how things are, not what to do about it.
// They are searched only where a range is given.
var givens = []string{"limit", "weight"}

// aroundDefault is how far a search goes from a default if nothing is said.
const aroundDefault = 8

// parseSpace reads a policy whose settings may be ranges, LOW..HIGH, or
// choices, a|b|c. If there are none, all settings are searched that are not
// set, but givens and those whose default is zero or a word.
func parseSpace(text string) (s space, err error) {
	name, list, open := strings.Cut(strings.TrimSpace(text), "(")
	s.name = strings.TrimSpace(name)
	plain := s.name
	if open != strings.HasSuffix(list, ")") || strings.Count(list, ")") > 1 {
		plain = text // ParsePolicy says what is wrong with it
	}
	if _, err := sim.ParsePolicy(plain); err != nil {
		return s, usage.Errorf("-policy: %v", err)
	}
	seen := map[string]bool{}
	for _, item := range strings.Split(strings.TrimSuffix(list, ")"), ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		setting, value, _ := strings.Cut(item, "=")
		if setting = strings.TrimSpace(setting); seen[setting] {
			return s, s.wrong("%s occurs twice", words.Quote(setting))
		}
		seen[setting] = true
		if err := s.add(item, setting, strings.TrimSpace(value)); err != nil {
			return s, err
		}
	}
	if len(s.dims) == 0 {
		s.addDefaults(seen)
	}
	if len(s.dims) == 0 {
		return s, s.wrong("nothing to search; give a setting a range, LOW..HIGH, or choices, a|b")
	}
	return s, nil
}

func (s *space) wrong(format string, a ...any) error {
	return usage.Error(fmt.Sprintf("-policy %s: ", s.name) + fmt.Sprintf(format, a...))
}

// check reports what the policy has against a setting.
func (s *space) check(item string) error {
	if _, err := sim.ParsePolicy(s.name + "(" + item + ")"); err != nil {
		return usage.Errorf("-policy: %v", err)
	}
	return nil
}

// add takes in one setting as it is written.
func (s *space) add(item, name, value string) error {
	if low, high, ok := strings.Cut(value, ".."); ok {
		return s.addRange(name, strings.TrimSpace(low), strings.TrimSpace(high))
	}
	if strings.Contains(value, "|") {
		return s.addChoices(name, strings.Split(value, "|"))
	}
	s.fixed = append(s.fixed, item)
	return s.check(item)
}

func (s *space) addRange(name, low, high string) error {
	for _, end := range []string{low, high} {
		if err := s.check(name + "=" + end); err != nil {
			return err
		}
	}
	d := dimension{name: name, whole: slices.Contains(wholes, name)}
	var isLow, isHigh, longLow, longHigh bool
	d.low, longLow, isLow = readValue(low)
	d.high, longHigh, isHigh = readValue(high)
	d.duration = longLow || longHigh
	switch {
	case !isLow || !isHigh:
		return s.wrong("%s=%s..%s: a range is of numbers or durations; write choices as a|b", name, low, high)
	case !(d.low < d.high):
		return s.wrong("%s=%s..%s: the low end must be below the high end", name, low, high)
	}
	s.dims = append(s.dims, d)
	return nil
}

func (s *space) addChoices(name string, choices []string) error {
	for i := range choices {
		choices[i] = strings.TrimSpace(choices[i])
		if err := s.check(name + "=" + choices[i]); err != nil {
			return err
		}
		if slices.Contains(choices[:i], choices[i]) {
			return s.wrong("%s: %s occurs twice", name, words.Quote(choices[i]))
		}
	}
	s.dims = append(s.dims, dimension{name: name, words: choices})
	return nil
}

// addDefaults adds ranges around the defaults of what is not set.
func (s *space) addDefaults(set map[string]bool) {
	for _, setting := range s.settings() {
		x, long, ok := readValue(setting.Default)
		if set[setting.Name] || slices.Contains(givens, setting.Name) || !ok || x <= 0 {
			continue
		}
		d := dimension{name: setting.Name, duration: long, whole: slices.Contains(wholes, setting.Name)}
		if d.low, d.high = s.around(d, x); d.low < d.high {
			s.dims = append(s.dims, d)
		}
	}
}

func (s *space) settings() []sim.Setting {
	for _, p := range sim.Policies() {
		if p.Name == s.name {
			return p.Settings
		}
	}
	return nil
}

// around is from x/8 to x×8. Where the policy takes nothing below 1, as with
// factors of growth, it is the part above 1 that varies so; where it takes
// nothing above 1, as with shares, the upper end is an eighth as far from 1.
func (s *space) around(d dimension, x float64) (low, high float64) {
	takes := func(v float64) bool { return s.check(d.name+"="+d.format(v)) == nil }
	low, high = x/aroundDefault, x*aroundDefault
	if !takes(low) {
		low = 1 + (x-1)/aroundDefault
		if x > 1 {
			high = 1 + (x-1)*aroundDefault
		}
	}
	if !takes(high) {
		high = 1 - (1-x)/aroundDefault
	}
	if !takes(low) || !takes(high) {
		return x, x
	}
	low, _, _ = readValue(d.format(low))
	high, _, _ = readValue(d.format(high))
	return low, high
}

// readValue reads a number, or a duration in nanoseconds.
func readValue(text string) (x float64, duration, ok bool) {
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return x, false, true
	}
	long, err := time.ParseDuration(text)
	return float64(long), true, err == nil
}

// value is the setting at u, from 0 to 1: low × (high/low)^u, or on a straight
// line where low is zero.
func (d dimension) value(u float64) string {
	if n := len(d.words); n > 0 {
		return d.words[min(int(u*float64(n)), n-1)]
	}
	x := d.low + u*(d.high-d.low)
	if d.low > 0 {
		x = d.low * math.Pow(d.high/d.low, u)
	}
	if rounded, _, _ := readValue(d.format(x)); rounded >= d.low && rounded <= d.high {
		return d.format(x)
	}
	return d.exact(min(max(x, d.low), d.high))
}

// format writes x with three digits that count.
func (d dimension) format(x float64) string {
	if d.whole {
		return d.exact(math.Round(x))
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return d.exact(rounded)
}

func (d dimension) exact(x float64) string {
	if d.duration {
		return words.Short(time.Duration(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// place is the u at which the setting has a value; ok is false if it has it
// nowhere.
func (d dimension) place(text string) (u float64, ok bool) {
	if n := len(d.words); n > 0 {
		i := slices.Index(d.words, text)
		return (float64(i) + 0.5) / float64(n), i >= 0
	}
	x, _, ok := readValue(text)
	if !ok || x < d.low || x > d.high {
		return 0, false
	}
	if d.low > 0 {
		return math.Log(x/d.low) / math.Log(d.high/d.low), true
	}
	return (x - d.low) / (d.high - d.low), true
}

// write is the policy with what is fixed and the other settings given.
func (s *space) write(searched []string) string {
	items := slices.Concat(s.fixed, searched)
	if len(items) == 0 {
		return s.name
	}
	return s.name + "(" + strings.Join(items, ",") + ")"
}

// at is the policy at a point of the space.
func (s *space) at(point []float64) string {
	var set []string
	for i, d := range s.dims {
		set = append(set, d.name+"="+d.value(point[i]))
	}
	return s.write(set)
}

// defaults is the point at which the searched settings have their defaults; ok
// is false if it lies outside of the ranges.
func (s *space) defaults() (point []float64, ok bool) {
	ok = true
	for _, d := range s.dims {
		for _, setting := range s.settings() {
			if setting.Name == d.name {
				u, in := d.place(setting.Default)
				point, ok = append(point, u), ok && in
			}
		}
	}
	return point, ok
}

// String is the space as it could be given to -policy.
func (s *space) String() string {
	var ranges []string
	for _, d := range s.dims {
		text := strings.Join(d.words, "|")
		if len(d.words) == 0 {
			text = d.exact(d.low) + ".." + d.exact(d.high)
		}
		ranges = append(ranges, d.name+"="+text)
	}
	return s.write(ranges)
}
