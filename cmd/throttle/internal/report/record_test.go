package report

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/internal/chart"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// point is an answer of worker 1 after a wait, in tests of the recorder.
func point(at, slept time.Duration, v pace.Verdict) sim.Point {
	return sim.Point{At: at, Slept: slept, Verdict: v, Level: at.Seconds(), Capacity: 2}
}

// TestRecorderIsBoundedAndKeepsPeaks watches a million requests, one of which
// waited long.
func TestRecorderIsBoundedAndKeepsPeaks(t *testing.T) {
	s := clitest.Builtin(t, "heroku")
	r := newRecorder(s, 1)
	const n, peak = 1_000_000, 654_321
	for i := range n {
		slept := time.Second
		if i == peak {
			slept = time.Hour
		}
		p := point(time.Duration(i)*time.Second, slept, pace.Served)
		r.watch(p)
		p.Sent = true
		r.watch(p)
	}
	tr := r.trace(s)
	if got := len(r.slices); got > maxSlices || got < maxSlices/2 {
		t.Errorf("%d slices, want %d to %d", got, maxSlices/2, maxSlices)
	}
	if got, most := len(tr.Dots[0].T), maxDots+2*maxSlices; got > most || got < maxDots/2 {
		t.Errorf("%d dots, want %d to %d", got, maxDots/2, most)
	}
	at := slices.Index(tr.Dots[0].Y, time.Hour.Seconds())
	if at < 0 || tr.Dots[0].T[at] != peak*time.Second {
		t.Errorf("the one long wait has no dot at %v", peak*time.Second)
	}
	if !slices.IsSorted(tr.Dots[0].T) {
		t.Error("dots are not in order of time")
	}
	var served float64
	for i, rate := range tr.Rates.Served {
		end := time.Duration(tr.End * 1e9)
		if i+1 < len(tr.Rates.T) {
			end = tr.Rates.T[i+1]
		}
		served += rate * (end - tr.Rates.T[i]).Seconds()
	}
	if tr.Seen[0] != n || math.Abs(served-n) > n/100 {
		t.Errorf("rates add up to %.0f requests and %d were seen, want %d", served, tr.Seen[0], n)
	}
	if got := tr.Level.Y[len(tr.Level.Y)-1]; got != n-1 {
		t.Errorf("last level %v, want %d", got, n-1)
	}
}

// TestRecorderKeepsAllOfAShortRun is the chart of AutoSleeper's documentation:
// each of its requests has a dot.
func TestRecorderKeepsAllOfAShortRun(t *testing.T) {
	s := clitest.Builtin(t, "sleeper")
	p, err := sim.ParsePolicy("autosleeper(initial=1ms,up=1.5,down=0.6,threshold=5,randomization=0)")
	if err != nil {
		t.Fatal(err)
	}
	tr := record(s, p, 1, 1)
	if got := tr.Seen[0] + tr.Seen[1]; got != 600 || len(tr.Dots[0].T)+len(tr.Dots[1].T) != 600 {
		t.Errorf("%d requests and %d dots, want 600 of each", got, len(tr.Dots[0].T)+len(tr.Dots[1].T))
	}
	want := time.Millisecond.Seconds() * math.Pow(1.5, 14)
	if first := tr.Dots[0].Y[1]; math.Abs(first-want) > 1e-6 {
		t.Errorf("the first wait that was long enough is %v s, want %v", first, want)
	}
	if tr.Level != nil || tr.Rates.Capacity != nil {
		t.Errorf("level %v, capacity %v, want none: the server has no limit", tr.Level, tr.Rates.Capacity)
	}
}

// TestRecorderOfFlight: without a bound a drowned server has all 512 workers in
// flight, each until its time-out; with one, two, for some milliseconds.
func TestRecorderOfFlight(t *testing.T) {
	s := clitest.Builtin(t, "cassandra")
	for _, c := range []struct {
		policy     string
		most, took float64
		limited    bool
	}{
		{"none", 512, 0.61, false},
		{"none(in-flight=adaptive)", 4, 0.01, true},
	} {
		p, err := sim.ParsePolicy(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		f := record(s, p, 1, 1).Flight
		if f == nil || (len(f.Limit) > 0) != c.limited {
			t.Fatalf("%s: %+v, want in flight, and a limit: %t", c.policy, f, c.limited)
		}
		n := len(f.T) - 5 // not at the end
		if got := f.InFlight[n]; got > c.most || got < c.most/8 {
			t.Errorf("%s: %.1f in flight at %v, want up to %v", c.policy, got, f.T[n], c.most)
		}
		if got := f.Took[n]; got > c.took || got < c.took/10 {
			t.Errorf("%s: answers take %.4f s at %v, want up to %v", c.policy, got, f.T[n], c.took)
		}
	}
	p, err := sim.ParsePolicy("none")
	if err != nil {
		t.Fatal(err)
	}
	if f := record(clitest.Builtin(t, "emr"), p, 1, 1).Flight; f != nil {
		t.Errorf("emr: %+v, want none: nothing queues there", f)
	}
}

func TestSpectrumMedian(t *testing.T) {
	for _, want := range []time.Duration{0, time.Microsecond, 7 * time.Microsecond, 1234 * time.Microsecond, time.Second, 300 * time.Hour} {
		var s spectrum
		s.add(0)
		s.add(want)
		s.add(want)
		s.add(400 * time.Hour)
		got := s.median()
		if diff := math.Abs(float64(got - want)); diff > float64(want)/8 {
			t.Errorf("median() = %v, want %v within an eighth", got, want)
		}
	}
}

func TestTraceJSON(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string
	}{
		{figures{0, 1, 1234567, 0.000123456, 2.0 / 3, math.NaN(), math.Inf(1)}, "[0,1,1234567,0.0001235,0.6667,null,null]"},
		{figures(nil), "[]"},
		{instants{0, time.Second, 1500 * time.Millisecond, 1501 * time.Millisecond}, "[0,1000,500,1]"},
	} {
		if got, err := json.Marshal(c.in); string(got) != c.want || err != nil {
			t.Errorf("json.Marshal(%v) = %s, %v, want %s", c.in, got, err, c.want)
		}
	}
}

// TestRecordEndsWithoutClients: after the last client has left nothing is served or
// refused, and the rates drawn add up to what was seen.
func TestRecordEndsWithoutClients(t *testing.T) {
	s := sim.Scenario{
		Name: "leave", Duration: time.Minute,
		Server:  sim.Server{Limit: limit.Limit{Count: 4, Period: time.Second}},
		Network: sim.Network{Latency: 100 * time.Millisecond},
		Clients: []sim.Group{{Processes: 1, Workers: 4, Leave: 10 * time.Second}},
	}
	p, err := sim.ParsePolicy("backoff")
	if err != nil {
		t.Fatal(err)
	}
	tr := record(s, p, 1, 1)
	ends := append(slices.Clone(tr.Rates.T[1:]), s.Duration)
	refused := 0.0
	for i, rate := range tr.Rates.Throttled {
		refused += rate * (ends[i] - tr.Rates.T[i]).Seconds()
	}
	if tr.Seen[1] == 0 || math.Abs(refused-float64(tr.Seen[1])) > 1 {
		t.Errorf("rates add up to %.1f refused, and %d were", refused, tr.Seen[1])
	}
	line := throttledSoFar(s, p, 1)
	if n := len(line.X); line.X[n-1] != 60 || line.Y[n-1] != float64(tr.Seen[1]) {
		t.Errorf("the line of the picture ends at %.1f s with %.0f refused, want at 60 s with %d", line.X[n-1], line.Y[n-1], tr.Seen[1])
	}
	if last := tr.Rates.Served[len(tr.Rates.Served)-1]; last != 0 {
		t.Errorf("%.1f a second are served at the end, want none", last)
	}
	s.Clients[0].Join, s.Clients[0].Leave = 59*time.Second, 59500*time.Millisecond
	s.Clients[0].Arrivals = 1e-9
	if tr := record(s, p, 1, 1); len(tr.Rates.T) < 2 || tr.Rates.T[0] != 0 {
		t.Errorf("rates of a run without a request are at %v, want from 0 on", tr.Rates.T)
	}
}

// TestUnitsOfPicture: time is in the unit that suits the longest line.
func TestUnitsOfPicture(t *testing.T) {
	for longest, want := range map[float64]string{1800: "s", 4 * 3600: "h", 365 * 86400: "d"} {
		lines := []chart.Series{{X: []float64{0, 60}}, {X: []float64{0, longest}}}
		size := map[string]float64{"s": 1, "h": 3600, "d": 86400}[want]
		if got := inUnits(lines); got != want || lines[0].X[1] != 60/size || lines[1].X[1] != longest/size {
			t.Errorf("%.0f s are %.4g %s beside %.4g, want %s", longest, lines[1].X[1], got, lines[0].X[1], want)
		}
	}
}
