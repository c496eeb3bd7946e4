package probe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/fit"
)

// doubtful are findings that leave candidates, each one unit less likely.
func doubtful(ended string, length time.Duration, kinds ...fit.Model) *findings {
	f := &findings{ended: ended, length: length}
	f.Refused, f.Why = 4, "the rate is known only to 7 %"
	for i, m := range kinds {
		f.Candidates = append(f.Candidates, fit.Candidate{Model: m, LogLikelihood: -2 - float64(i), Share: 0.5})
	}
	return f
}

// TestDoubt: the paragraph names the kinds that remain with their likelihoods, not
// those that are excluded, and what would tell them apart.
func TestDoubt(t *testing.T) {
	bucket := fit.Model{Kind: fit.TokenBucket, Rate: 5, Burst: 10}
	window := fit.Model{Kind: fit.FixedWindow, Count: 20, Period: time.Hour}
	first := fit.Model{Kind: fit.FixedWindow, Count: 20, Period: 2 * time.Hour, FromFirst: true}
	log, counter := fit.Model{Kind: fit.SlidingLog, Count: 20, Period: time.Minute}, fit.Model{Kind: fit.SlidingCounter, Count: 20, Period: time.Minute}
	shared := doubtful("", 5*time.Hour, window, first)
	shared.Shared = true
	excluded := doubtful("", time.Hour, bucket, log)
	excluded.Candidates[1].LogLikelihood = -2 - 4.7
	nothing := doubtful("-requests 20", time.Second, fit.Model{})
	nothing.Refused, nothing.Why = 0, "nothing was refused in 20 requests"
	for _, test := range []struct {
		f    *findings
		want string
	}{
		{doubtful("-refusals 60", time.Hour, bucket, log), "Not identified: token bucket (ln -2.0, 50%) and sliding log (ln -3.0, 50%) remain, less than 99:1 apart. " +
			"A rest after a refusal tells them apart: a bucket gives back in proportion to it, a window nothing before its period has passed. It ended by -refusals 60: allow more."},
		{doubtful("-for 5m", 5*time.Minute, window, log), "It ended by -for 5m: observe for longer, at least 3h, three periods of 1h."},
		{doubtful("-for 5m", 5*time.Minute, bucket, counter), "It ended by -for 5m: observe for longer."},
		{shared, "It saw 5h: observe for longer, at least 6h, three periods of 2h. Others use the same limit: run it again at a quieter time."},
		{doubtful("", time.Hour, log, counter), "only a sliding window counter gives back evenly."},
		{doubtful("-for 5m", 5*time.Minute, bucket, log, counter), "sliding log (ln -3.0, 50%) and sliding window counter (ln -4.0, 50%) remain, less than 99:1 apart. " +
			"A rest after a refusal tells the first two apart: a bucket gives back in proportion to it, a window nothing before its period has passed. It ended by -for 5m: observe for longer."},
		{excluded, "Not identified: only a token bucket remains (ln -2.0, 50%), but the rate is known only to 7 %."},
		{nothing, "Not identified: nothing was refused in 20 requests. A limit shows where it is exceeded: send more (-requests) and more at once (-at-once). It ended by -requests 20: allow more."},
		{doubtful("-failures 3", time.Hour, bucket, counter), "It ended by -failures 3."},
	} {
		got := test.f.doubt()
		if !strings.HasSuffix(got, test.want) || strings.HasSuffix(got, "..") {
			t.Errorf("%s\nwant the end %s", got, test.want)
		}
	}
}

// TestBarred: of requests that were all refused no limit is proposed, nor are others blamed.
func TestBarred(t *testing.T) {
	f := made(fit.Model{Kind: fit.FixedWindow, Rate: 0.025, Count: 1, Period: 40 * time.Second})
	f.Decided, f.Shared, f.Refused, f.statuses = false, true, f.Used, map[int]int{429: f.Used}
	var text, object strings.Builder
	if err := errors.Join(f.write(&text), f.writeJSON(&object)); err != nil {
		t.Fatal(err)
	}
	all := strings.ToLower(text.String() + object.String())
	if strings.Contains(all, "rule") || strings.Contains(all, "others use") || !strings.Contains(all, "nothing was served") {
		t.Errorf("got\n%s", all)
	}
}

// TestApart: any two kinds have one sentence that does not depend on their order.
func TestApart(t *testing.T) {
	for _, a := range models {
		for _, b := range models {
			same := a.Kind == b.Kind && a.FromFirst == b.FromFirst
			if x, y := apart(a, b), apart(b, a); x != y || !same && x == "" {
				t.Errorf("%v and %v: %q, and %q", a, b, x, y)
			}
		}
	}
}
