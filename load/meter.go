package load

import "time"

// meter is the rate at which something comes, over the last second: a sliding
// window counter.
type meter struct {
	second      int64 // Unix time
	now, before float64
}

func (m *meter) add(now time.Time) {
	m.turn(now)
	m.now++
}

// rate returns how many a second.
func (m *meter) rate(now time.Time) float64 {
	m.turn(now)
	return m.now + m.before*(1-float64(now.Nanosecond())/1e9)
}

func (m *meter) turn(now time.Time) {
	switch t := now.Unix(); {
	case t == m.second+1:
		m.before, m.now, m.second = m.now, 0, t
	case t != m.second:
		*m = meter{second: t}
	}
}
