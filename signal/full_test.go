package signal

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// The reset of a token bucket is when it is full: nothing ends then, but it says how fast tokens come
// back.
func TestResetOfATokenBucketIsWhenItIsFull(t *testing.T) {
	r := heard(t, "api.openai.com", 200, "X-RateLimit-Limit-Requests: 500\nX-RateLimit-Remaining-Requests: 499\nX-RateLimit-Reset-Requests: 120ms\n"+
		"X-RateLimit-Limit-Tokens: 60000\nX-RateLimit-Remaining-Tokens: 15000\nX-RateLimit-Reset-Tokens: 45s", "")
	if len(r.Policies) != 2 || r.Policies[1].Unit != "tokens" {
		t.Fatalf("read %+v, want requests and tokens", r.Policies)
	}
	p := r.Policies[1]
	if h := p.Report(r.Report()).Hints; h.Full != pace.Some(45*time.Second) || h.Reset.OK || h.Window.OK {
		t.Errorf("of the tokens the hints are %+v, want a Full of 45s and no Reset", h)
	}
}
