package tasks

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

// Explained returns a client that logs why a request waits for more than a second.
func Explained(l *slog.Logger) *http.Client {
	forHost := func(host string) *throttle.Throttle {
		return &throttle.Throttle{OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Waits && e.Wait > time.Second && e.Wait != pace.Never {
				l.Warn("a request waits", "host", host, "wait", e.Wait, "why", e.Why)
			}
		}}
	}
	return &http.Client{Transport: &throttlehttp.Transport{
		Throttles: &throttle.Group{New: forHost},
	}}
}
