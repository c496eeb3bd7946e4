package sim

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

func TestErrorsCostATokenAndAreRetried(t *testing.T) {
	s := small()
	s.Server.Limit = bucketOf(100, time.Second, 100)
	s.Server.Errors = 0.5
	s.Clients[0].Work = 300
	r := play(t, s, "none", 1)
	if r.Served != 300 || r.Throttled != 0 || r.Sent < 540 || r.Sent > 660 {
		t.Errorf("served %d, throttled %d, sent %d; want 300, 0, about 600", r.Served, r.Throttled, r.Sent)
	}
	if u := r.Utilisation.V; math.Abs(u*(100+100*r.Finish.V)-300) > 1 {
		t.Errorf("utilisation %v counts failures as served", u)
	}
}

func TestWorkIsSharedByTheGroup(t *testing.T) {
	s := small()
	s.Duration = 0
	s.Clients = []Group{{Processes: 2, Workers: 2, Work: 25}, {Processes: 1, Workers: 1, Work: 5}}
	r := play(t, s, "none", 1)
	if r.Groups[0].Served != 25 || r.Groups[1].Served != 5 || !r.Finish.OK {
		t.Errorf("groups served %d and %d, finish %v; want 25, 5, a time", r.Groups[0].Served, r.Groups[1].Served, r.Finish)
	}
	if f := r.Finish.V; f < 25 || f > 26.5 {
		t.Errorf("finish %v s, want (30-5)/1 s and a little", f)
	}
}

// A process may have more workers than a gate lets wait unless told: none of
// them must be lost.
func TestMoreWorkersThanAGateHolds(t *testing.T) {
	const workers = 105_000
	s := small()
	s.Duration, s.Server.Limit = 0, limit.Limit{}
	s.Clients = []Group{{Processes: 1, Workers: workers, Work: workers}}
	r := New(s, policy(t, "fixed(rate=10000)"), 1)
	for range 1000 {
		if r.Step(1000) {
			break
		}
	}
	for _, w := range r.workers {
		if w.sent == 0 {
			t.Fatalf("after %v a worker has sent nothing; want each of %d to have sent", time.Duration(r.now), workers)
		}
	}
}

func TestGroupsWithTheirOwnPolicyAreNotMeasured(t *testing.T) {
	s := small()
	fixed := policy(t, "none")
	s.Clients = append(s.Clients, Group{Processes: 1, Workers: 3, Policy: &fixed}, Group{Processes: 1, Workers: 2, Rival: true})
	r := play(t, s, "fixed(rate=0.2)", 1)
	if r.Sent != r.Groups[0].Sent || r.Groups[1].Sent < 2500 || r.Groups[2].Policy != "fixed(rate=0.2)" {
		t.Errorf("sent %d, groups %+v", r.Sent, r.Groups)
	}
	if u := r.Utilisation.V; u < 0.95 {
		t.Errorf("utilisation %v, want about 1: what the server served to anyone", u)
	}
	var shares float64
	for _, g := range r.Groups {
		shares += g.Share.V
	}
	if math.Abs(shares-1) > 1e-9 {
		t.Errorf("shares add up to %v", shares)
	}
}

func TestJoinAndLeave(t *testing.T) {
	s := small()
	s.Server.Limit = limit.Limit{}
	s.Clients = []Group{
		{Processes: 1, Workers: 1},
		{Processes: 2, Workers: 1, Join: 20 * time.Second, Leave: 60 * time.Second, Every: 10 * time.Second},
	}
	first, last := map[int]time.Duration{}, map[int]time.Duration{}
	r := New(s, policy(t, "none"), 1)
	r.Watch = func(p Point) {
		if _, ok := first[p.Process]; !ok {
			first[p.Process] = p.At
		}
		last[p.Process] = p.At
	}
	for !r.Step(1000) {
	}
	want := [][2]time.Duration{{0, 100}, {20, 60}, {30, 70}}
	for i, w := range want {
		if d := first[i] - w[0]*time.Second; d < 0 || d > 50*time.Millisecond {
			t.Errorf("process %d came at %v, want %v s", i, first[i], w[0])
		}
		if d := last[i] - w[1]*time.Second; d < -110*time.Millisecond || d > 110*time.Millisecond {
			t.Errorf("process %d went at %v, want %v s", i, last[i], w[1])
		}
	}
	if res := r.Result(); res.Jain.V != 1 || res.Utilisation.OK {
		t.Errorf("jain %v, utilisation %v; want 1 (of the one that stays) and none", res.Jain, res.Utilisation)
	}
}

// A run lasts as long as it says, also when all have gone.
func TestAllLeave(t *testing.T) {
	s := small()
	s.Clients[0].Leave = 25 * time.Second
	r := New(s, policy(t, "none"), 1)
	for !r.Step(1000) {
	}
	res := r.Result()
	at, _ := r.Now()
	if got, want := res.Throughput.V, float64(res.Served)/s.Duration.Seconds(); at != s.Duration || got != want {
		t.Errorf("throughput %v at %v, want %v at %v", got, at, want, s.Duration)
	}
}

func TestOnOff(t *testing.T) {
	s := small()
	s.Server.Limit = limit.Limit{}
	s.Clients[0].On, s.Clients[0].Off = 10*time.Second, 30*time.Second
	r := New(s, policy(t, "none"), 1)
	r.Watch = func(p Point) {
		if into := p.At % (40 * time.Second); p.Sent && into >= 10*time.Second {
			t.Errorf("a call began at %v, which is off", p.At)
		}
	}
	for !r.Step(1000) {
	}
	if n := r.Result().Sent; n < 295 || n > 301 {
		t.Errorf("sent %d, want about 300 in 30 s on", n)
	}
}

func TestArrivalsQueueAndOverflow(t *testing.T) {
	s := small()
	s.Server.Limit = limit.Limit{}
	s.Duration = 1000 * time.Second
	s.Clients[0].Arrivals = 5
	r := play(t, s, "none", 1)
	if r.Sent < 4700 || r.Sent > 5300 || r.Overflow != 0 {
		t.Errorf("sent %d, overflow %d; want about 5000, 0", r.Sent, r.Overflow)
	}
	// M/D/1 at half load waits half a service time on average: 0.05 s + 0.1 s.
	if p50 := r.WaitP50.V; p50 < 0.1 || p50 > 0.16 {
		t.Errorf("median wait %v s, want from 0.1 to 0.16", p50)
	}
	s.Clients[0].Arrivals = 100
	r = play(t, s, "none", 1)
	if want := int64(1000*100 - 10*1000 - 10_000); math.Abs(float64(r.Overflow-want)) > 0.02*float64(want) {
		t.Errorf("overflow %d, want about %d", r.Overflow, want)
	}
}
