package throttlesql

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// answers is a Query that answers statements whose text has a word with values, and
// the others with none.
func answers(word string, values ...any) Query {
	return func(_ context.Context, sql string, _ ...any) Row {
		return row(func(dest ...any) error {
			if !strings.Contains(sql, word) {
				return errors.New("no rows in result set")
			}
			for i, v := range values {
				reflect.ValueOf(dest[i]).Elem().Set(reflect.ValueOf(v))
			}
			return nil
		})
	}
}

// TestWrongAnswers: an answer that package limit cannot agree with, as where a proxy
// runs statements twice, or that is none, admits nothing: it may have been charged.
func TestWrongAnswers(t *testing.T) {
	const now = int64(1_700_000_000_000_000)
	yes, no, none := true, false, (*string)(nil)
	text := func(s string) *string { return &s }
	bucket := limit.Ask{Key: "k", Limit: limit.Limit{Count: 5, Period: 5 * time.Second}, N: 1}
	window, log, other := bucket, bucket, bucket
	window.Limit.Kind, log.Limit.Kind, other.Key = limit.SlidingWindow, limit.SlidingLog, "other"
	for name, c := range map[string]struct {
		query Query
		asks  []limit.Ask
		words string
	}{
		"a bucket that owes more than it may":    {answers("INSERT", now, now+6_000_000), []limit.Ask{bucket}, "decide differently"},
		"a bucket that owes less than was taken": {answers("INSERT", now, now+500_000), []limit.Ask{bucket}, "decide differently"},
		"a window that has more than its Count":  {answers("INSERT", now, now-now%5_000_000+10_000_000, int64(6), int64(0), false), []limit.Ask{window}, "decide differently"},
		"two buckets, one of which is used up":   {answers("_several", now, text("{1700000001000000,0,1700000006000000,0}"), int64(0)), []limit.Ask{bucket, other}, "decide differently"},
		"two buckets, and numbers of one":        {answers("_several", now, text("{1700000001000000,0}"), int64(0)), []limit.Ask{bucket, other}, "not one of throttle_take"},
		"a log that is used up, and passes":      {answers("_take", now, &yes, "{1699999999000000,5,1699999999000000,0}", none, int64(0)), []limit.Ask{log}, "decide differently"},
		"a log that is unused, and is refused":   {answers("_take", now, &no, "{0,0,0,0}", none, int64(0)), []limit.Ask{log}, "decide differently"},
		"a log, and numbers that are none":       {answers("_take", now, &yes, "{a,b,c,d}", none, int64(0)), []limit.Ask{log}, "not one of throttle_take"},
		"a log, and no numbers":                  {answers("_take", now, &yes, "", none, int64(0)), []limit.Ask{log}, "not one of throttle_take"},
		"a log whose limit changes all the time": {answers("_take", now, (*bool)(nil), "{0,0,0,0}", none, int64(0)), []limit.Ask{log}, "changed 8 times"},
	} {
		ok, err := (&Store{Query: c.query}).Take(t.Context(), c.asks, make([]limit.Decision, len(c.asks)))
		var e *Error
		if ok || !errors.As(err, &e) || !strings.Contains(err.Error(), c.words) || e.Charged == strings.Contains(c.words, "changed") {
			t.Errorf("%s: %t, %v, want an error with %q", name, ok, err, c.words)
		}
	}
}
