package rules

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Limit is a [limit.Limit] with a JSON form: text as [limit.Parse] reads it, such
// as "10/s burst 20", "5000/month calendar-window Europe/Berlin" or "unlimited",
// "0/s" allowing nothing; or an object with count and period, such as
// {"count": 10, "period": "1m30s"}, and, if need be, burst, kind and slots. As text
// has the name of its Zone only, time.LoadLocation must find it by that.
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
	Count  int64         `json:"count"`
	Period time.Duration `json:"period"`
	Burst  int64         `json:"burst"`
	Kind   string        `json:"kind"`
	Slots  int32         `json:"slots"`
}

// lacks says which of the names an object has no field of.
func (n node) lacks(names []string) *Error {
	fields, _ := n.Value.([]Field)
	for _, name := range names {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			return n.fail("no %q; write it, as in {\"count\": 10, \"period\": \"1s\"}", name)
		}
	}
	return nil
}

// limit returns the object as a Limit. The error has no prefix.
func (o limitObject) limit() (l Limit, err error) {
	l.Count, l.Period, l.Burst, l.Slots = o.Count, o.Period, o.Burst, o.Slots
	if l.Period <= 0 {
		return Limit{}, fmt.Errorf("the period is %s; write a duration above zero, as in \"1m30s\"", l.Period)
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
	case l.Kind.String() == "unknown":
		return "the kind is not known; it is one of " + kindWords()
	case l.Kind == limit.SlidingLog && l.Count > limit.MaxLog:
		return fmt.Sprintf("a sliding-log counts up to %d; write sliding-slots or sliding-window", limit.MaxLog)
	case l.Slots != 0 && l.Kind != limit.SlidingSlots, l.Slots < 0, l.Slots > limit.MaxSlots:
		return fmt.Sprintf("only sliding-slots has slots, from 1 to %d", limit.MaxSlots)
	case l.Burst > 0 && l.Kind != limit.TokenBucket:
		return fmt.Sprintf("a %s has no burst; leave it out", l.Kind)
	case l.Zone != nil && l.Kind != limit.CalendarWindow:
		return "only a calendar-window has a time zone; leave it out"
	}
	return ""
}

// zoneFlaw returns what is wrong with the time zone of a limit, or "". As text has
// its name only, the name must be enough to find it.
func (l Limit) zoneFlaw() string {
	if l.Zone == nil {
		return ""
	}
	if _, err := time.LoadLocation(l.Zone.String()); err == nil && l.Zone.String() != "" {
		return ""
	}
	return fmt.Sprintf("the time zone %.40q cannot be found by its name; give one of time.LoadLocation, as Europe/Berlin", l.Zone)
}

// kindWords returns the kinds of limits.
func kindWords() string {
	var words []string
	for k := limit.Kind(0); k.String() != "unknown"; k++ {
		words = append(words, k.String())
	}
	return strings.Join(words, ", ")
}

func (l *Limit) read(n node) *Error {
	var err error
	if s, ok := n.Value.(string); ok {
		*l, err = parseLimit(s)
	} else {
		var o limitObject
		if _, ok := n.Value.([]Field); !ok {
			return n.fail("must be text, as in \"10/s burst 20\", or {\"count\": 10, \"period\": \"1s\"}")
		}
		if e := decodeStruct(n, reflect.ValueOf(&o).Elem()); e != nil {
			return e
		}
		if e := n.lacks(requiredFields[reflect.TypeFor[Limit]()]); e != nil {
			return e
		}
		*l, err = o.limit()
	}
	if err != nil {
		return n.fail("%v", err)
	}
	return nil
}
