package sim

import (
	"strings"
	"testing"
)

func TestPeersByName(t *testing.T) {
	stdout, stderr, code := play(t.Context(), "sim", "-seeds=1", "-policy= omniscient ,adaptive", "-assert=omniscient.retry_rate<0.01", "emr")
	if code != 0 || !strings.Contains(stdout, "\nomniscient ") || !strings.Contains(stdout, "\nadaptive ") {
		t.Errorf("code %d, stderr %q, stdout %q; want rows of both", code, stderr, stdout)
	}
	for _, c := range []struct{ policy, says string }{
		{"cenkalti", "peers cenkalti-backoff, retryablehttp"},
		{"omniscient(rate=4)", "no settings"},
		{"backoff(rate=4)", "known are base"},
	} {
		_, stderr, code := play(t.Context(), "sim", "-policy="+c.policy)
		if code != 2 || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") > 1 {
			t.Errorf("-policy=%s: code %d, stderr %q; want 2 and a line with %q", c.policy, code, stderr, c.says)
		}
	}
}
