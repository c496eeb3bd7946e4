package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

func TestHistogramIsWithinOnePercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var h histogram
	var all []float64
	for range 100_000 {
		v := int64(math.Exp(random.Float64() * 40))
		h.add(v)
		all = append(all, float64(v))
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.99, 0.999} {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if got := h.quantile(q); math.Abs(got-want) > 0.01*want {
			t.Errorf("quantile(%v) = %v, want %v within 1 %%", q, got, want)
		}
	}
	h.add(0)
	h.add(math.MaxInt64)
	if h.quantile(0) != 0 {
		t.Error("the least value is 0")
	}
}

func TestQueueIsInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var q queue
	for range 10_000 {
		q.push(random.Int64N(1000), evWake, 0)
	}
	last := event{at: -1}
	for len(q.events) > 0 {
		e := q.pop()
		if !last.before(e) {
			t.Fatalf("%+v came before %+v", last, e)
		}
		last = e
	}
}

func TestOver(t *testing.T) {
	some := pace.Some[float64]
	got := Over([]pace.Opt[float64]{some(3), {}, some(1), some(10), some(2)})
	if got != pace.Some(Stat{2.5, 1, 10}) {
		t.Errorf("Over = %+v, want median 2.5 from 1 to 10", got)
	}
	if Over(nil).OK {
		t.Error("a statistic of nothing")
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		want  string
		spoil func(*Scenario)
	}{
		{"latency", func(s *Scenario) { s.Network.Latency = 0 }},
		{"spread", func(s *Scenario) { s.Network.Spread = 1 }},
		{"spread", func(s *Scenario) { s.Network.Spread = math.NaN() }},
		{"limit", func(s *Scenario) { s.Server.Limit.Count = -1 }},
		{"errors", func(s *Scenario) { s.Server.Errors = 1 }},
		{"start", func(s *Scenario) { s.Server.Start = pace.Some[int64](-1) }},
		{"change", func(s *Scenario) {
			s.Server.Changes = []Change{{At: time.Second, Count: 1, Period: time.Second}, {At: time.Second, Count: 2, Period: time.Second}}
		}},
		{"limit to change", func(s *Scenario) {
			s.Server.Limit = limit.Limit{}
			s.Server.Changes = []Change{{At: time.Second, Count: 1, Period: time.Second}}
		}},
		{"auto-scaler", func(s *Scenario) { s.Server.Scale.Every = time.Second }},
		{"without refill", func(s *Scenario) { s.Server.Limit = bucketOf(0, time.Second, 1<<60) }},
		{"no clients", func(s *Scenario) { s.Clients = nil }},
		{"at least 1", func(s *Scenario) { s.Clients[0].Workers = 0 }},
		{"workers in all", func(s *Scenario) { s.Clients[0].Processes = math.MaxInt }},
		{"leaves", func(s *Scenario) { s.Clients[0].Join, s.Clients[0].Leave = 2, 1 }},
		{"off needs", func(s *Scenario) { s.Clients[0].Off = 1 }},
		{"arrivals", func(s *Scenario) { s.Clients[0].Arrivals = math.Inf(1) }},
		{"never ends", func(s *Scenario) { s.Duration = 0 }},
		{"never ends", func(s *Scenario) { s.Duration, s.Clients[0].Rival = 0, true }},
		{"duration", func(s *Scenario) { s.Duration = math.MaxInt64 }},
		{"setting", func(s *Scenario) { s.Settings = map[string]string{"backoff": "fctor=2"} }},
	} {
		s := small()
		s.Clients = slices.Clone(s.Clients)
		test.spoil(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Check = %v, want one line about %q", err, test.want)
		}
	}
	for _, s := range Builtin() {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}
