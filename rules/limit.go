package rules

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Limit is a [limit.Limit] with a JSON form: text as [limit.Parse] reads it, such
// as "10/s burst 20", "5000/month calendar-window Europe/Berlin" or "unlimited",
// "0/s" allowing nothing; or an object with count, period, burst and kind, such
// as {"count": 10, "period": "1m30s"}.
type Limit limit.Limit

// MarshalJSON returns the text form.
func (l Limit) MarshalJSON() ([]byte, error) { return json.Marshal(limit.Limit(l).String()) }

// parseLimit reads the text form. The error has no prefix.
func parseLimit(text string) (Limit, error) {
	l, err := limit.Parse(text, time.LoadLocation)
	if err != nil {
		return Limit{}, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "limit: "))
	}
	return Limit(l), nil
}

type limitObject struct {
	Count  int64  `json:"count"`
	Period string `json:"period"`
	Burst  int64  `json:"burst"`
	Kind   string `json:"kind"`
}

// limit returns the object as a Limit. The error has no prefix.
func (o limitObject) limit() (l Limit, err error) {
	l.Count, l.Burst = o.Count, o.Burst
	l.Period, err = time.ParseDuration(o.Period)
	if err != nil || l.Period <= 0 {
		return Limit{}, fmt.Errorf("period %.40q is none; write a duration above zero, as in \"1m30s\"", o.Period)
	}
	if o.Kind != "" {
		l.Kind, err = limit.ParseKind(o.Kind)
		if err != nil {
			return Limit{}, fmt.Errorf("unknown kind %.40q; it is one of %s", o.Kind, kindWords())
		}
	}
	return l, nil
}

// flaw returns what is wrong with a limit, or "".
func (l Limit) flaw() string {
	switch {
	case l.Period < 0, l.Period == 0 && l != Limit{}:
		return "a limit without a period; write a rate, as in 10/s, or unlimited"
	case l.Count < 0 || l.Burst < 0:
		return "a negative count or burst; 0/s allows nothing"
	case !keeps(l.Kind):
		return fmt.Sprintf("no Store keeps a limit of the kind %s; it is one of %s", l.Kind, kindWords())
	case l.Burst > 0 && l.Kind != limit.TokenBucket:
		return fmt.Sprintf("a %s has no burst; leave it out", l.Kind)
	case l.Zone != nil && l.Kind != limit.CalendarWindow:
		return "only a calendar-window has a time zone; leave it out"
	}
	return ""
}

// keeps reports whether Stores keep limits of the kind: whether a key never
// seen may take one of one.
func keeps(k limit.Kind) bool {
	one := limit.Ask{Limit: limit.Limit{Kind: k, Count: 1, Period: time.Second}, N: 1}
	_, d := limit.Take(limit.State{}, time.Unix(0, 0), one)
	return d.OK && k.String() != "unknown"
}

// kindWords returns the kinds that Stores keep.
func kindWords() string {
	var words []string
	for k := limit.Kind(0); k.String() != "unknown"; k++ {
		if keeps(k) {
			words = append(words, k.String())
		}
	}
	return strings.Join(words, ", ")
}
