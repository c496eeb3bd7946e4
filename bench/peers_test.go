package bench

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go/adaptivethrottler"
	"github.com/hashicorp/go-retryablehttp"
	aimd "github.com/platinummonkey/go-concurrency-limits/limit"
	"golang.org/x/time/rate"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// restOf is what a model rests after a refusal.
func restOf(c pace.Controller, try int, luck pace.Luck, after time.Duration) time.Duration {
	now := time.Now()
	r := pace.Request{Since: now, Try: try, Luck: luck}
	return c.Observe(now, pace.Outcome{Request: r, Sent: now, Report: pace.Report{Verdict: pace.Throttled, After: after}})
}

// Without randomness the intervals are the same to the nanosecond.
func TestCenkaltiAgrees(t *testing.T) {
	original := backoff.NewExponentialBackOff()
	original.RandomizationFactor = 0
	for try := range 40 {
		want := original.NextBackOff()
		if got := restOf(peers.Cenkalti{Exact: true}, try, 0, 0); got != want {
			t.Errorf("retry %d: the model rests %v, the original %v", try, got, want)
		}
	}
}

// With it they are spread alike: the original draws from the global source, so
// least, mean and most of 4000 draws are compared.
func TestCenkaltiIsSpreadAlike(t *testing.T) {
	const draws = 4000
	var ours, theirs [16][]time.Duration
	for i := range draws {
		original := backoff.NewExponentialBackOff()
		for try := range ours {
			ours[try] = append(ours[try], restOf(peers.Cenkalti{}, try, pace.Luck(i), 0))
			theirs[try] = append(theirs[try], original.NextBackOff())
		}
	}
	for try := range ours {
		for what, of := range map[string]func([]time.Duration) time.Duration{
			"least": slices.Min[[]time.Duration], "mean": meanOf, "most": slices.Max[[]time.Duration],
		} {
			got, want := of(ours[try]), of(theirs[try])
			if d := float64(got)/float64(want) - 1; d < -0.04 || d > 0.04 {
				t.Errorf("retry %d: %s of the rests %v, the original's %v, want within 4 %%", try, what, got, want)
			}
		}
	}
}

func meanOf(all []time.Duration) (mean time.Duration) {
	for _, d := range all {
		mean += d / time.Duration(len(all))
	}
	return mean
}

// refusing answers 429 so often, with so long a Retry-After now and then, and
// notes when it was asked.
type refusing struct {
	refusals int
	luck     *rand.Rand
	asked    []time.Time
	after    []time.Duration // said with each refusal
}

func (f *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked = append(f.asked, time.Now())
	a := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}
	if len(f.asked) > f.refusals {
		return a, nil
	}
	a.StatusCode = http.StatusTooManyRequests
	after := time.Duration(0)
	if f.luck.IntN(3) == 0 {
		after = time.Duration(1+f.luck.IntN(50)) * time.Second
		a.Header.Set("Retry-After", strconv.Itoa(int(after/time.Second)))
	}
	f.after = append(f.after, after)
	return a, nil
}

// The client itself runs, in a bubble; only RetryMax is above its default.
func TestRetryableAgrees(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(20) {
			server := &refusing{refusals: 12, luck: rand.New(rand.NewPCG(seed, 1))}
			client := retryablehttp.NewClient()
			client.Logger, client.RetryMax = nil, 100
			client.HTTPClient = &http.Client{Transport: server}
			answer, err := client.Get("http://example.com/")
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			for i, after := range server.after {
				got, want := restOf(peers.Retryable{}, i, 0, after), server.asked[i+1].Sub(server.asked[i])
				if got != want {
					t.Errorf("seed %d, retry %d, Retry-After %v: the model rests %v, the client %v", seed, i, after, got, want)
				}
			}
		}
	})
}

// Its rate of rejection is the same to the last bit, whatever is counted when.
func TestFailsafeAgrees(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(5) {
			luck := rand.New(rand.NewPCG(seed, 2))
			original, model := adaptivethrottler.NewWithDefaults[any](), peers.NewFailsafe()
			good, rejecting := 0.5, 0
			for i := range 3000 {
				if luck.IntN(100) == 0 {
					good = luck.Float64()
					time.Sleep(time.Duration(luck.Int64N(int64(90 * time.Second))))
				}
				time.Sleep(time.Duration(luck.Int64N(int64(time.Second))))
				_ = original.AcquirePermit()
				if got, want := model.RejectionRate(), original.RejectionRate(); got != want {
					t.Fatalf("seed %d, event %d: the model rejects %v, the original %v", seed, i, got, want)
				}
				if model.RejectionRate() > 0 {
					rejecting++
				}
				now, verdict := time.Now(), pace.Throttled
				if luck.Float64() < good {
					verdict = pace.Served
					original.RecordSuccess()
				} else {
					original.RecordFailure()
				}
				model.Observe(now, pace.Outcome{Sent: now, Report: pace.Report{Verdict: verdict}})
			}
			if rejecting < 500 || rejecting > 2900 {
				t.Errorf("seed %d: rejected at %d of 3000 events: too few or too many to tell", seed, rejecting)
			}
		}
	})
}

// And it rejects as often: the original draws by itself, so shares are compared.
func TestFailsafeRejectsAsOften(t *testing.T) {
	const asks = 20_000
	original, model := adaptivethrottler.NewWithDefaults[any](), peers.NewFailsafe()
	now := time.Now()
	for i := range 100 {
		if i%2 == 0 {
			original.RecordFailure()
			model.Observe(now, pace.Outcome{Sent: now, Report: pace.Report{Verdict: pace.Throttled}})
		} else {
			original.RecordSuccess()
			model.Observe(now, pace.Outcome{Sent: now, Report: pace.Report{Verdict: pace.Served}})
		}
	}
	var ours, theirs float64
	for i := range asks {
		if !original.TryAcquirePermit() {
			theirs += 1.0 / asks
		}
		if model.Wait(now, pace.Request{Since: now, Luck: pace.Luck(i)}) > 0 {
			ours += 1.0 / asks
		}
	}
	if d := ours - theirs; d < -0.02 || d > 0.02 {
		t.Errorf("the model rejects %.3f of all, the original %.3f, want within 0.02", ours, theirs)
	}
}

// The Go port reads no clock: it is told each sample. The model keeps count of
// what is in flight by itself.
func TestNetflixAgreesWithItsGoPort(t *testing.T) {
	for seed := range uint64(20) {
		luck := rand.New(rand.NewPCG(seed, 3))
		original, model := aimd.NewDefaultAIMDLimit("", nil), &peers.Netflix{Full: true}
		type flight struct {
			sent time.Time
			n    int
		}
		var flying []flight
		now, least, most := time.Unix(1000, 0), 10, 10
		for i := range 5000 {
			now = now.Add(time.Duration(1 + luck.IntN(1e6)))
			if wants := luck.IntN(3) > 0; wants && model.Wait(now, pace.Request{}) <= 0 {
				model.Start(now, pace.Request{})
				flying = append(flying, flight{now, len(flying) + 1})
				continue
			}
			if len(flying) == 0 {
				continue
			}
			k := luck.IntN(len(flying))
			f := flying[k]
			flying = slices.Delete(flying, k, k+1)
			verdict, often := pace.Served, 2+28*(i/500%2)
			if luck.IntN(often) == 0 {
				verdict = pace.Throttled
			}
			original.OnSample(f.sent.UnixNano(), int64(now.Sub(f.sent)), f.n, verdict == pace.Throttled)
			model.Observe(now, pace.Outcome{Sent: f.sent, Report: pace.Report{Verdict: verdict}})
			if got, want := model.Limit(), original.EstimatedLimit(); got != want {
				t.Fatalf("seed %d, event %d: the model's limit is %d, the original's %d", seed, i, got, want)
			}
			least, most = min(least, model.Limit()), max(most, model.Limit())
		}
		if least > 5 || most < 11 {
			t.Errorf("seed %d: the limit went from %d to %d only: too little to tell", seed, least, most)
		}
	}
}

// When each of many goes is the same within a microsecond: the original cuts
// fractions of a nanosecond off.
func TestBucketAgreesWithTimeRate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(20) {
			luck := rand.New(rand.NewPCG(seed, 4))
			second, burst := 0.1+20*luck.Float64(), 1+luck.IntN(5)
			original := rate.NewLimiter(rate.Limit(second), burst)
			model := &peers.Bucket{Rates: []peers.Rate{{Second: second}}, Level: float64(burst), Burst: float64(burst)}
			waited := 0
			for i := range 500 {
				if luck.IntN(10) == 0 {
					time.Sleep(time.Duration(luck.Int64N(int64(5 * time.Second))))
				}
				due := time.Now().Add(max(model.Wait(time.Now(), pace.Request{}), 0))
				if due.After(time.Now()) {
					waited++
				}
				if err := original.Wait(context.Background()); err != nil {
					t.Fatal(err)
				}
				if d := time.Until(due); d < -near || d > near {
					t.Fatalf("seed %d, event %d: the model lets it go %v after the original", seed, i, d)
				}
				model.Start(time.Now(), pace.Request{})
			}
			if waited < 100 {
				t.Errorf("seed %d: %d of 500 waited: too few to tell", seed, waited)
			}
		}
	})
}
