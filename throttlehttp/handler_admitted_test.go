package throttlehttp

import (
	"net/http"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
)

// TestHandlerAdmitted: what serves the requests admitted may give back what one
// was charged.
func TestHandlerAdmitted(t *testing.T) {
	served := 0
	h := &Handler{
		Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}},
		Next:    http.NotFoundHandler(),
		Admitted: func(w http.ResponseWriter, r *http.Request, a *admit.Admission) {
			served++
			if r.URL.Path == "/dead" {
				if err := a.GiveBack(); err != nil {
					t.Error(err)
				}
				w.WriteHeader(http.StatusBadGateway)
			}
		},
	}
	for i, c := range []struct {
		path string
		want int
	}{{"/dead", 502}, {"/", 200}, {"/", 429}} {
		if got := ask(h, "GET", with("path", c.path)).StatusCode; got != c.want {
			t.Errorf("request %d, for %s: %d, want %d", i+1, c.path, got, c.want)
		}
	}
	if served != 2 {
		t.Errorf("%d requests were admitted, want 2", served)
	}
}
