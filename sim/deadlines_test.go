package sim

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// hurried is a server of 500 a second, 5 workers that take 10 ms each, whose queue
// has no end; it works on for callers that have gone. The callers wait for 600 ms,
// for their turn and the answer together, and make each call once.
func hurried(g Group) Scenario {
	g.Processes, g.Retries = 1, -1
	if g.Patience == 0 {
		g.Patience = 600 * time.Millisecond
	}
	if g.Arrivals > 0 {
		g.Workers = 4000
	}
	return Scenario{
		Name: "deadlines", Duration: 40 * time.Second,
		Server:  Server{Service: Service{Time: 10 * time.Millisecond, Spread: 0.2, AtOnce: 5, Queue: -1}},
		Network: Network{Latency: time.Millisecond, Spread: spread},
		Clients: []Group{g},
	}
}

// hurriedAt is hurried at a server of such speeds.
func hurriedAt(g Group, s ...Speed) Scenario {
	h := hurried(g)
	h.Server.Service.Speeds = s
	return h
}

// loop is so many callers that call without end.
func loop(n int) Group { return Group{Workers: n} }

// open is so many calls a second.
func open(rate float64) Group { return Group{Arrivals: rate} }

// Where more calls come than a server can answer before their deadlines, those
// with too little time left are passed over, and nearly all that start are of use;
// where it can answer all, all are answered.
func TestDeadlines(t *testing.T) {
	quarter, slow := 10*time.Second, 40.0
	write := cassandra()
	write.Duration = 40 * time.Second
	write.Clients = []Group{{Processes: 1, Workers: 512, Patience: 600 * time.Millisecond, Retries: -1}}
	far := hurried(loop(1000))
	far.Server.Service.Time, far.Server.Service.AtOnce = 300*time.Millisecond, 150
	limited := hurried(loop(512))
	limited.Server = Server{Limit: bucketOf(50, time.Second, 10), Hints: Hints{Remaining: true}}
	limited.Network.Latency = 100 * time.Millisecond
	lossy := hurried(loop(512))
	lossy.Clients[0].Timeout, lossy.Network.Loss = time.Minute, 0.01
	worse := func(n int) Scenario {
		s := hurried(loop(n))
		s.Clients[0].Timeout, s.Network.Loss = time.Minute, 0.05
		return s
	}
	short := open(750)
	short.Patience = 25 * time.Millisecond
	for _, c := range []struct {
		name   string
		s      Scenario
		policy string
		last   float64 // served a second, in the last quarter
		inTime float64 // part of all calls
	}{
		{"queue", write, "none(in-flight=adaptive)", 470, 0},
		{"queue", write, "none(in-flight=8)", 470, 0},
		{"queue", write, "none(in-flight=aimd)", 200, 0},
		{"512", hurried(loop(512)), "none(in-flight=adaptive)", 465, 0},
		{"512", hurried(loop(512)), "none(in-flight=8)", 465, 0},
		{"512", hurried(loop(512)), "none(in-flight=64)", 380, 0},
		{"512", hurried(loop(512)), "none(in-flight=aimd)", 200, 0},
		{"200, which it can answer", hurried(loop(200)), "none(in-flight=adaptive)", 490, 0.999},
		{"half", hurried(open(250)), "none(in-flight=adaptive)", 240, 0.999},
		{"nine tenths", hurried(open(450)), "none(in-flight=adaptive)", 440, 0.999},
		{"1.5 times", hurried(open(750)), "none(in-flight=adaptive)", 455, 0.6},
		{"1.5 times, 25 ms", hurried(short), "none(in-flight=8)", 455, 0.6},
		{"five times", hurried(open(2500)), "none(in-flight=adaptive)", 445, 0.17},
		{"slow for 10 s", hurriedAt(loop(512), Speed{quarter, slow}, Speed{2 * quarter, 1}), "none(in-flight=adaptive)", 460, 0},
		{"slow for 10 s", hurriedAt(loop(512), Speed{quarter, slow}, Speed{2 * quarter, 1}), "none(in-flight=aimd)", 200, 0},
		{"slow for 10 s, open", hurriedAt(open(400), Speed{quarter, slow}, Speed{2 * quarter, 1}), "none(in-flight=adaptive)", 390, 0.7},
		{"slow first answers", hurriedAt(loop(100), Speed{0, 160}, Speed{20 * time.Millisecond, 1}), "none(in-flight=8)", 490, 0.98},
		{"slow server", far, "none(in-flight=150)", 430, 0},
		{"one in 100 lost", lossy, "none(in-flight=adaptive)", 460, 0},
		{"one in 20 lost, 200", worse(200), "none(in-flight=64)", 475, 0.94},
		{"one in 20 lost, 250", worse(250), "none(in-flight=64)", 475, 0.94},
		{"one in 20 lost, 512", worse(512), "none(in-flight=64)", 475, 0.42},
		{"limit", limited, "fixed(rate=48)", 42, 0},
		{"limit", limited, "adaptive-informed", 42, 0},
	} {
		if err := c.s.Check(); err != nil {
			t.Fatal(err)
		}
		r := New(c.s, policy(t, c.policy), 1)
		for time.Duration(r.now) < 3*quarter && !r.Step(100) {
		}
		before := r.Result().Served
		res := finish(r)
		last := float64(res.Served-before) / quarter.Seconds()
		t.Logf("%s, %s: %.0f/s in the last quarter, %.3f of all in time", c.name, c.policy, last, res.InTime.V)
		if last < c.last || res.InTime.V < c.inTime {
			t.Errorf("%s, %s: %.0f/s in the last quarter, %.3f of all in time; want %.0f/s and %.3f", c.name, c.policy, last, res.InTime.V, c.last, c.inTime)
		}
	}
}

// TestGoldenDeadlines pins a run in which 512 callers wait for 600 ms, and the
// server is slow from 10 s to 20 s.
func TestGoldenDeadlines(t *testing.T) {
	var got bytes.Buffer
	golden(t, &got, hurriedAt(loop(512), Speed{10 * time.Second, 40}, Speed{20 * time.Second, 1}), "none(in-flight=adaptive)")
	file := filepath.Join("testdata", "deadlines-none.txt")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is now\n%s\nif that is meant: go test ./sim -run Golden -update", file, got.Bytes())
	}
}

// hung draws a client whose calls have deadlines, and a server that works for long at
// least, hangs for the time returned, and works as long again.
func hung(seed uint64, long time.Duration) (Scenario, time.Duration) {
	r := rand.New(rand.NewPCG(seed, 1))
	hang := []time.Duration{5, 20, 60, 150}[r.IntN(4)] * time.Second
	latency := time.Duration(math.Pow(100, r.Float64())*10) * time.Millisecond
	patience := max(200*time.Millisecond, []time.Duration{2, 4, 10, 40}[r.IntN(4)]*latency)
	s := Scenario{
		Name: "hung", Duration: 2*(long+hang) - time.Second,
		Server: Server{
			Limit:   bucketOf(int64(math.Pow(30, r.Float64())*10), 3*time.Second, 1+r.Int64N(60)),
			Hints:   Hints{Remaining: r.IntN(2) == 0, RetryAfter: r.IntN(2) == 0, Policy: r.IntN(2) == 0},
			Service: Service{Time: 5 * time.Millisecond, AtOnce: 200, Pause: Pause{Every: long + hang, Length: hang}},
		},
		Network: Network{Latency: latency, Spread: spread},
		Clients: []Group{{Processes: 1, Workers: []int{4, 12, 40, 200}[r.IntN(4)], Patience: patience}},
	}
	return s, hang
}

// A client whose calls have deadlines serves calls again once a server that hung is back: a
// call that takes a turn has time left for its answer.
func TestAfterAHang(t *testing.T) {
	const long = 200 * time.Second
	for seed := range uint64(24) {
		s, hang := hung(seed, long)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		r, served := New(s, policy(t, "adaptive-informed"), seed), [2]int{}
		back := long + 2*hang
		r.Watch = func(x Point) {
			switch at := x.At - long/2; {
			case x.Sent || x.Verdict != pace.Served:
			case at > 0 && at < long/3:
				served[0]++
			case at > back && at < back+long/3:
				served[1]++
			}
		}
		finish(r)
		c := s.Clients[0]
		t.Logf("%v, latency %v, %d callers wait %v, hangs for %v: %d served in %v, %d as long after", s.Server.Limit, s.Network.Latency, c.Workers, c.Patience, hang, served[0], long/3, served[1])
		if 3*served[1] < served[0] {
			t.Errorf("seed %d: %d served after a hang of %v, %d before", seed, served[1], hang, served[0])
		}
	}
}
