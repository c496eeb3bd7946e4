package upstream

import "time"

// health is what is known of an address from the requests sent to it: passive
// health checks. It is a value, and time and jitter are arguments.
type health struct {
	failures  int       // in a row
	ejections int       // in a row
	until     time.Time // ejected until then; zero: healthy
}

const (
	// tolerated is how many failures in a row an address may have that took the
	// connection. One that refuses it is ejected at once.
	tolerated = 5
	// ejected and maxEjected bound how long an address is left out; it doubles
	// with each time in a row.
	ejected    = time.Second
	maxEjected = 30 * time.Second
)

// failed returns the health after a failure: dead if there was no connection.
// jitter is within [0, 1), so that gateways do not try again in step.
func (h health) failed(now time.Time, dead bool, jitter float64) health {
	h.failures++
	if !dead && h.until.IsZero() && h.failures < tolerated {
		return h
	}
	if now.Before(h.until) { // a request sent before it was ejected, or as all are
		return h
	}
	d := min(ejected<<min(h.ejections, 10), maxEjected)
	h.until = now.Add(d + time.Duration(jitter*float64(d)/4))
	h.ejections++
	return h
}
