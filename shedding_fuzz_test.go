package throttle

import (
	"testing"
	"time"
)

// FuzzShedding: whatever comes, ends, gives up and waits too long, never more are
// under way or wait than may, all are counted, and nobody is lost.
func FuzzShedding(f *testing.F) {
	f.Add([]byte("abcdefgh"), uint8(2), uint8(3))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 100, 101, 200, 201, 202, 3, 3, 3, 250}, uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, script []byte, most, waiting uint8) {
		s := shedding{fixed: int(most % 5), highest: 10, maxWaiting: 1 + int(waiting%8), maxWait: 300 * ms}
		now := time.Date(2026, 11, 6, 9, 0, 0, 0, time.UTC)
		var line, under []*applicant
		refused, gone := 0, 0
		settle := func() { // those who were told
			rest := line[:0]
			for _, a := range line {
				switch {
				case a.granted:
					under = append(under, a)
				case a.why != nil:
					refused++
				default:
					rest = append(rest, a)
				}
			}
			line = rest
		}
		for _, b := range script {
			now = now.Add(time.Duration(b) * ms / 4)
			switch k := int(b); {
			case k%4 < 2:
				a := &applicant{class: k / 4 % Classes, turn: make(chan struct{}, 1)}
				if s.enter(now, a) != nil {
					refused++
				} else {
					line = append(line, a)
				}
			case k%4 == 2 && len(under) > 0:
				i := k / 4 % len(under)
				s.done(now, under[i], k%8 < 4)
				under = append(under[:i], under[i+1:]...)
				gone++
			case k%4 == 3 && len(line) > 0:
				i := k / 4 % len(line)
				s.leave(line[i], k%8 < 4)
				line = append(line[:i], line[i+1:]...)
				if k%8 < 4 {
					refused++
				}
			}
			settle()
			var passed, no int64
			for c := range Classes {
				passed, no = passed+s.passed[c], no+s.refused[c]
			}
			if s.inFlight != len(under) || s.waiting != len(line) || s.fixed > 0 && s.inFlight > s.fixed || s.inFlight > 20 || s.waiting > s.maxWaiting ||
				passed != int64(gone+len(under)) || no != int64(refused) {
				t.Fatalf("%d under way, %d wait, %d were refused; counted %+v", len(under), len(line), refused, s)
			}
			if s.waiting > 0 && s.inFlight < s.allowed() && s.fixed > 0 {
				t.Fatalf("%d wait while there is room: %+v", s.waiting, s)
			}
		}
	})
}
