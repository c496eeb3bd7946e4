package limit

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the algorithm of a Limit: TokenBucket, FixedWindow, SlidingLog and so on.
type Kind uint8

const (
	// TokenBucket admits bursts of up to Burst and, over any length of time,
	// at most Burst + Count × time / Period. It is computed as GCRA (ITU-T
	// I.371, the "generic cell rate algorithm"): the state is one instant. A
	// leaky bucket used as a meter is its mirror image, full where this one is
	// empty, and decides the same.
	TokenBucket Kind = iota
	// FixedWindow admits Count in each window of length Period. Windows are
	// aligned to the Unix epoch.
	FixedWindow
	// SlidingLog admits Count, at most MaxLog, in any window of length Period.
	// Its history does not fit a State: a Log or a Store keeps it, and the
	// function Take panics.
	SlidingLog
	// SlidingWindow admits Count in the last Period as estimated from two
	// counters: that of the current window, aligned to the epoch, and that of
	// the window before, in proportion to the part of it within the last Period.
	SlidingWindow
	// SlidingSlots admits at most Count in any window of length Period, and
	// counts in Slots parts of it: an event counts up to one part too long,
	// never too short. Its history does not fit a State: a Slots or a Store
	// keeps it, and the function Take panics.
	SlidingSlots
	// FirstHitWindow admits Count in each window of length Period; a window
	// begins with the first event after the last one has ended.
	FirstHitWindow
	// CalendarWindow admits Count in each minute, hour, day, week or month of
	// a time zone: see Limit.Period and Limit.Zone.
	CalendarWindow

	unknownKind = iota // and above
)

// kindNames are what String writes and ParseKind reads.
var kindNames = [unknownKind]string{
	TokenBucket:    "token-bucket",
	FixedWindow:    "fixed-window",
	SlidingLog:     "sliding-log",
	SlidingWindow:  "sliding-window",
	SlidingSlots:   "sliding-slots",
	FirstHitWindow: "first-hit-window",
	CalendarWindow: "calendar-window",
}

// String returns the name that ParseKind reads, or "unknown".
func (k Kind) String() string {
	if k >= unknownKind {
		return "unknown"
	}
	return kindNames[k]
}

// ParseKind reads the name of a Kind as String writes it. It also reads gcra and
// leaky-bucket as token-bucket, and calendar as calendar-window. The error is
// one line that says what would be right.
func ParseKind(text string) (Kind, error) {
	switch text {
	case "gcra", "leaky-bucket":
		return TokenBucket, nil
	case "calendar":
		return CalendarWindow, nil
	}
	for k, name := range kindNames {
		if text == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("limit: kind %.40q: is not known; write one of gcra leaky-bucket %s", text, strings.Join(kindNames[:], " "))
}

// isBucket reports whether k is computed as a TokenBucket, as any that is not
// known is.
func (k Kind) isBucket() bool { return k == TokenBucket || k >= unknownKind }

// isWindow reports whether k counts in windows that forget all at their end.
func (k Kind) isWindow() bool {
	return k == FixedWindow || k == FirstHitWindow || k == CalendarWindow
}

// keptApart reports whether k needs more than a State.
func (k Kind) keptApart() bool { return k == SlidingLog || k == SlidingSlots }

// unused decides a about a key of which nothing is used, and charges nothing.
func unused(now time.Time, a Ask) (d Decision) {
	if l := &a.Limit; l.Kind.keptApart() { // unused, it decides as this one does, without a history
		l.Kind, l.Count = FirstHitWindow, l.most()
	}
	if _, d = Take(State{}, now, a); d.OK {
		_, d = Take(State{}, now, Ask{Limit: a.Limit})
	}
	return d
}
