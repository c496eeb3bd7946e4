package crowd

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
)

// long skips a test that takes minutes, unless it is wanted.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: processes that overload or share a real server are NOT tried; THROTTLE_SOAK=1 does, for some minutes")
	}
}

// serves starts a server in a process of its own.
func serves(t *testing.T, o ServerOrders) (server *rig.Self, url string) {
	t.Helper()
	o.Addr = fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	server = rig.Again(t)
	server.Ask(t, "Peer.Serve", o, new(bool))
	return server, "http://" + o.Addr
}

// calls lets processes of clients call, each as it is told, and returns what all of
// them have seen, and what the server has in the Last of the time.
func calls(t *testing.T, server *rig.Self, processes []*rig.Self, order func(i int) ClientOrders) (all Called, seen map[string]Seen) {
	t.Helper()
	made := make([]Called, len(processes))
	var wait sync.WaitGroup
	for i, p := range processes {
		o := order(i)
		wait.Go(func() {
			call := <-p.Go("Peer.Call", o, &made[i], nil).Done
			if call.Error != nil {
				t.Errorf("process %d: %v", i, call.Error)
			}
		})
	}
	time.Sleep(order(0).For - order(0).Last)
	var before map[string]Seen
	server.Ask(t, "Peer.Counts", 0, &before)
	time.Sleep(order(0).Last)
	server.Ask(t, "Peer.Counts", 0, &seen)
	wait.Wait()
	for name, n := range seen {
		seen[name] = Seen{n.Served - before[name].Served, n.Refused - before[name].Refused}
	}
	for i, m := range made {
		all.Took, all.Calls, all.Rejected = append(all.Took, m.Took...), all.Calls+m.Calls, all.Rejected+m.Rejected
		all.Late = append(all.Late, m.Late...)
		if m.Failed != "" {
			t.Errorf("process %d: a call failed: %s", i, m.Failed)
		}
	}
	slices.Sort(all.Took)
	slices.Sort(all.Late)
	return all, seen
}

// crowdOf starts processes.
func crowdOf(t *testing.T, n int) (all []*rig.Self) {
	t.Helper()
	for range n {
		all = append(all, rig.Again(t))
	}
	return all
}

// worst is the 99th percentile of sorted times.
func worst(t *testing.T, sorted []time.Duration) time.Duration {
	t.Helper()
	if len(sorted) == 0 {
		t.Fatal("nothing was served")
	}
	return sorted[len(sorted)*99/100]
}

// TestTenfoldOverloadSoak: under ten times as many calls as a server of about 500/s
// has capacity for, 200 clients reject most of them themselves. The server does all
// it can, is offered little more, and answers nearly as fast as at rest. On a machine
// that does nothing else.
func TestTenfoldOverloadSoak(t *testing.T) {
	long(t)
	const clients, processes, capacity = 200, 4, 500.0
	peers := crowdOf(t, processes)
	load := func(times float64, long, last time.Duration) (served, offered, could float64, all Called) {
		server, url := serves(t, ServerOrders{Workers: 20, Queue: 20, Work: 40 * time.Millisecond})
		all, seen := calls(t, server, peers, func(i int) ClientOrders {
			const each = clients / processes
			return ClientOrders{URL: url, First: i * each, Clients: each, Rate: times * capacity / clients, Line: 20, For: long, Last: last}
		})
		for _, n := range seen {
			served += float64(n.Served) / last.Seconds()
			offered += float64(n.Served+n.Refused) / last.Seconds()
		}
		server.Ask(t, "Peer.Capacity", 0, &could)
		return served, offered, could, all
	}
	_, _, _, rest := load(0.5, 20*time.Second, 10*time.Second)
	served, offered, could, all := load(10, 40*time.Second, 20*time.Second)
	p99, calm, late := worst(t, all.Took), worst(t, rest.Took), worst(t, all.Late)
	t.Logf("%.0f/s of %.0f/s served, %.0f/s offered, p99 %v, at rest %v, of how late timers were %v; %d of %d calls rejected by their clients",
		served, could, offered, p99, calm, late, all.Rejected, all.Calls)
	if served < 0.95*could || offered > 2.2*could || p99 > 2*calm+3*late {
		t.Errorf("%.0f/s of %.0f/s served, %.0f/s offered, p99 %v, at rest %v; want 0.95 of it, at most 2.2, and twice that at rest and %v for timers",
			served, could, offered, p99, calm, 3*late)
	}
	if part := float64(all.Rejected) / float64(all.Calls); part < 0.8 {
		t.Errorf("clients rejected %.2f of the calls themselves, want 0.8 of ten times as many as can be served", part)
	}
}

// TestEvenSharesSoak: 8 processes that always have more to do share a rate of 80/s.
// In the two minutes after the first, each has its part of it where the server
// states it (admit.Request.Caller). Where it says only what is left, or only
// refuses, they are still on their way there.
func TestEvenSharesSoak(t *testing.T) {
	long(t)
	const processes, rate = 8, 80
	for _, c := range []struct {
		name                     string
		tells, shares            bool
		jain, deviation, refused float64
	}{
		{"told its share", true, true, 0.95, 0.1, 0.03},
		{"told what is left", true, false, 0.8, 0.5, 0.03},
		{"refused only", false, false, 0.8, 0.5, 0.03},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, url := serves(t, ServerOrders{Rate: rate, Tells: c.tells, Shares: c.shares})
			_, seen := calls(t, server, crowdOf(t, processes), func(i int) ClientOrders {
				return ClientOrders{URL: url, First: i, Clients: 1, Workers: 10, Line: 100, For: 3 * time.Minute, Last: 2 * time.Minute}
			})
			var sum, squares, refused float64
			for _, n := range seen {
				x := float64(n.Served)
				sum, squares, refused = sum+x, squares+x*x, refused+float64(n.Refused)
			}
			mean := sum / processes
			jain, deviation := sum*sum/processes/squares, math.Sqrt(max(0, squares/processes-mean*mean))/mean
			refused /= sum + refused
			t.Logf("%s: %.1f/s of %d/s served, Jain %.3f, deviation %.3f of the mean, %.2f %% refused", c.name, sum/120, rate, jain, deviation, 100*refused)
			if jain < c.jain || deviation > c.deviation || refused > c.refused {
				t.Errorf("%s: Jain %.3f, deviation %.3f of the mean, %.3f refused; want at least %v, at most %v and %v", c.name, jain, deviation, refused, c.jain, c.deviation, c.refused)
			}
			if sum/120 < 0.9*rate {
				t.Errorf("%s: %.1f/s of %d/s served, want nine tenths", c.name, sum/120, rate)
			}
		})
	}
}
