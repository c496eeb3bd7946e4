package load

import "fmt"

// Priority states how important work is: Low, Normal, High or Critical. Under
// overload the lowest is shed first. The zero Priority is unset; where one is
// needed it counts as Normal.
type Priority uint8

const (
	// Low is shed first: batch work, crawlers.
	Low Priority = iota + 1
	// Normal is for all work whose priority is not set.
	Normal
	// High is shed only once all Normal work is.
	High
	// Critical is shed last.
	Critical
)

// Priorities is the number of priorities.
const Priorities = 4

var words = [...]string{Low: "low", Normal: "normal", High: "high", Critical: "critical"}

// Index returns the place of p in an array of [Priorities], from 0 for Low to 3
// for Critical. Zero counts as Normal, more than Critical as Critical.
func (p Priority) Index() int {
	if p == 0 {
		p = Normal
	}
	return int(min(p, Critical) - Low)
}

// String returns low, normal, high or critical, and unknown for all else.
func (p Priority) String() string {
	if p == 0 || p > Critical {
		return "unknown"
	}
	return words[p]
}

// MarshalText returns the name of p, and an error if it has none.
func (p Priority) MarshalText() ([]byte, error) {
	if p == 0 || p > Critical {
		return nil, fmt.Errorf("load: unknown priority %d", p)
	}
	return []byte(words[p]), nil
}

// UnmarshalText reads low, normal, high or critical. Its error has no prefix:
// the reader of a file adds the place instead.
func (p *Priority) UnmarshalText(text []byte) error {
	for known := Low; known <= Critical; known++ {
		if words[known] == string(text) {
			*p = known
			return nil
		}
	}
	return fmt.Errorf("unknown priority %.40q; write low, normal, high or critical", text)
}
