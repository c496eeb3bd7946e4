package signal

import (
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// before are the words before a wait in a sentence. Others, as in "100 requests
// in 60 seconds", are before something else.
var before = [...]string{"again in ", "again after ", "retry in ", "retry after ", "available in ", "please wait "}

// timeUnits are how the words for units of time begin.
var timeUnits = [...]struct {
	word string
	unit time.Duration
}{{"milli", time.Millisecond}, {"sec", time.Second}, {"min", time.Minute}, {"hour", time.Hour}}

// waitIn reads the wait in a sentence: "again in 20 seconds", "again in 6m0s".
func waitIn(text string) pace.Opt[time.Duration] {
	text = strings.ToLower(text)
	for _, words := range before {
		_, rest, ok := strings.Cut(text, words)
		if !ok {
			continue
		}
		number, rest, _ := strings.Cut(rest, " ")
		number = strings.TrimRight(number, ".,;!)")
		if d, err := time.ParseDuration(number); err == nil && len(number) <= maxNumber {
			return pace.Some(d)
		}
		v, ok := decimal(number)
		for _, u := range timeUnits {
			if ok && strings.HasPrefix(rest, u.word) {
				return pace.Some(bounded(v * float64(u.unit)))
			}
		}
	}
	return pace.Opt[time.Duration]{}
}
