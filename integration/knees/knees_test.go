package knees

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

const turns = 3 // of a sweep, between runs of throttle find

// services are real ones, each started by the tests that use it.
var services = []struct {
	name  string
	start func(t *testing.T) string
}{{"nginx", nginx}, {"PostgreSQL", postgres}, {"Cassandra", cassandra}}

// sweepOf returns a sweep of the service at url for the objective that find is given.
func sweepOf(url string) *sweep {
	return &sweep{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}, Timeout: time.Second},
		url:    url, want: objective{100 * time.Millisecond, 0.001}, long: 20 * time.Second,
		rng: rand.New(rand.NewPCG(1, 1)),
	}
}

// TestFindSoak: throttle find ends within 15 % of a sweep of the same service in
// nine of ten runs, in turns with it, in a tenth of the requests of an exhaustive
// sweep. Some thirty minutes for each service, on a machine that does nothing else.
func TestFindSoak(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: throttle find is NOT compared with sweeps of nginx, PostgreSQL and Cassandra; make soak does")
	}
	program := built(t)
	for _, service := range services {
		t.Run(service.name, func(t *testing.T) {
			url := service.start(t)
			s := sweepOf(url)
			all := []found{find(t, program, url)}
			var rates []float64
			for r := 0.67; r < 1.5; r *= 1.08 {
				rates = append(rates, all[0].Knee.At*r)
			}
			held := make([]int, len(rates))
			for range turns {
				s.turn(t, rates, held)
				all = append(all, find(t, program, url))
			}
			want, near, spent := knee(t, rates, held, turns), 0, 0
			for _, got := range all {
				t.Logf("find %.4g/s (%.4g to %.4g), sweep %.4g/s: %+.1f %%; recovery: %s; %d requests in %.0f s",
					got.Knee.At, got.Knee.Low, got.Knee.High, want, 100*(got.Knee.At/want-1), got.Recovery.Verdict, got.Spent.Requests, got.Spent.Time)
				if math.Abs(got.Knee.At/want-1) <= 0.15 {
					near++
				}
				spent += got.Spent.Requests
			}
			spent /= len(all)
			t.Logf("find sends %d requests on average, the sweep around what it found %d, an exhaustive one %d", spent, s.sent, exhaustive(want))
			if 10*spent > exhaustive(want) {
				t.Errorf("find sends %d requests, an exhaustive sweep %d: want at most a tenth", spent, exhaustive(want))
			}
			if 10*near < 9*len(all) {
				t.Errorf("%d of %d are within 15 %% of the sweep's %.4g/s, want nine in ten", near, len(all), want)
			}
		})
	}
}

// TestRecoverySoak: whether a service recovers within 30 s, as throttle find says, is
// what is seen when it is pushed as far by other code and watched for two minutes.
// What takes about that long may be called either.
func TestRecoverySoak(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: nginx, PostgreSQL and Cassandra are NOT pushed past their knees; make soak does")
	}
	program := built(t)
	for _, service := range services {
		t.Run(service.name, func(t *testing.T) {
			url := service.start(t)
			r, s := find(t, program, url).Recovery, sweepOf(url)
			s.settle(t)
			took := s.recovers(t, r.Pushed, time.Duration(r.For*float64(time.Second)), r.Back)
			t.Logf("pushed to %.4g/s for %.3g s, back to %.4g/s: find says %s after %.3g s; seen: %v", r.Pushed, r.For, r.Back, r.Verdict, r.After, took)
			want := "recovers"
			switch {
			case took >= watched*time.Second:
				want = "metastable"
			case took > 30*time.Second:
				want = "slow"
			}
			if r.Verdict != want && (took < 24*time.Second || took > 36*time.Second) {
				t.Errorf("find says %s, want %s: it took %v", r.Verdict, want, took)
			}
		})
	}
}

// exhaustive is how many requests a sweep would send that knows nothing of the knee:
// 44 rates up to 1.1 times it, for a minute and 10,000 requests each, as that with
// which package knee is compared. It would take many hours.
func exhaustive(knee float64) (requests int) {
	for i := range 44 {
		rate := 1.1 * knee * float64(i+1) / 44
		requests += int(max(60*rate, 10_000))
	}
	return requests
}

// found is what throttle find -json says, in part.
type found struct {
	Knee     struct{ Low, At, High float64 }
	Recovery struct {
		Verdict      string
		Pushed, Back float64
		For          float64 `json:"for_s"`
		After        float64 `json:"after_s"`
	}
	Doubt string
	Spent struct {
		Requests int
		Time     float64 `json:"time_s"`
	}
}

func find(t *testing.T, program, url string) (f found) {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, "find", "-json", "-p99", "100ms", "-H", "Accept-Encoding: gzip", url)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c, err, out)
	}
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// built is the path of the program, built from this tree.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "throttle")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	c.Dir = filepath.Join("..", "..", "cmd", "throttle")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, out)
	}
	return path
}
