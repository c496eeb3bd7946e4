// Command grid draws random cells, runs policies in them and scores a law
// against its peers.
//
//	grid -n 150 -seed 1 -peers peers.json          # runs peers and the present law, keeps them
//	grid -n 150 -seed 1 -peers peers.json -law law2
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

type Cell struct {
	ID      int
	Kind    string // tb fw sl
	Mode    string // closed open job
	Rate    float64
	Count   int64
	Period  float64
	Burst   int64
	Start   int64 // -1: full
	Latency float64
	Hints   string
	Procs   int
	Workers int
	Load    float64
	Work    int64
	Steps   []float64 // at, factor, at, factor
	Dur     float64
	Ideal   float64 // finish of a job
	Demand  float64 // calls that could be made by demand alone
	Long    bool    // long enough for Jain
	s       sim.Scenario
}

func (c Cell) String() string {
	lim := fmt.Sprintf("%s %.4g/s", c.Kind, c.Rate)
	if c.Rate < 0.2 {
		lim = fmt.Sprintf("%s %.4g/h", c.Kind, c.Rate*3600)
	}
	if c.Kind == "tb" {
		lim += fmt.Sprintf(" b%d", c.Burst)
		if c.Start >= 0 {
			lim += fmt.Sprintf(" start %d", c.Start)
		}
	} else {
		lim += fmt.Sprintf(" (%d/%.3gs)", c.Count, c.Period)
	}
	what := c.Mode
	switch c.Mode {
	case "open":
		what = fmt.Sprintf("open %.0f%%", c.Load*100)
	case "job":
		what = fmt.Sprintf("job %d ideal %.3gs", c.Work, c.Ideal)
	}
	st := ""
	for i := 0; i < len(c.Steps); i += 2 {
		st += fmt.Sprintf(" x%.2g@%.0f", c.Steps[i+1], c.Steps[i])
	}
	return fmt.Sprintf("#%d %s [%s] %.3gs %dx%d %s%s %.0fs", c.ID, lim, c.Hints, c.Latency, c.Procs, c.Workers, what, st, c.Dur)
}

func draw(seed uint64, id int) (c Cell) {
	r := rand.New(rand.NewPCG(seed, uint64(id)))
	lu := func(a, b float64) float64 { return a * math.Pow(b/a, r.Float64()) }
	for {
		c = Cell{ID: id, Start: -1}
		c.Kind = []string{"tb", "tb", "fw", "sl"}[r.IntN(4)]
		c.Mode = []string{"closed", "open", "job"}[r.IntN(3)]
		c.Rate = lu(10.0/3600, 5000)
		c.Latency = lu(0.001, 10)
		c.Procs = 1
		if r.IntN(3) > 0 {
			c.Procs = int(lu(1, 50.99))
		}
		c.Workers = int(lu(1, 50.99))
		if c.Kind == "tb" {
			c.Burst = int64(max(1, math.Round(lu(1, max(2, c.Rate*3600)))))
			c.Count, c.Period = ratio(c.Rate)
			if r.IntN(3) == 0 {
				c.Start = 0
			}
		} else {
			p := []float64{1, 1, 10, 60, 60, 3600, 86400}[r.IntN(7)]
			n := math.Round(c.Rate * p)
			if n < 3 || n > 200000 || c.Kind == "sl" && n > 50000 {
				continue
			}
			c.Count, c.Period = int64(n), p
		}
		c.Rate = float64(c.Count) / c.Period
		for _, h := range "RASP" {
			if r.IntN(2) == 0 {
				c.Hints += string(h)
			}
		}
		demand := math.Inf(1)
		work := lu(300, 12000)
		c.Dur = min(max(work/c.Rate, 60), 48*3600)
		c.Dur = min(c.Dur, max(60000/c.Rate, 15))
		if c.Kind != "tb" {
			c.Dur = max(c.Dur, 3*c.Period)
		}
		c.Dur = max(c.Dur, 30*c.Latency)
		c.Load = 0.3 + 0.9*r.Float64()
		c.Work = int64(lu(20, 2000))
		stepped := r.IntN(4) == 0
		k1, k2 := lu(0.2, 5), lu(0.2, 5)
		cap0 := float64(c.Count)
		if c.Kind == "tb" {
			cap0 = float64(c.Burst)
			if c.Start >= 0 {
				cap0 = float64(c.Start)
			}
		}
		workers := float64(c.Procs * c.Workers)
		switch c.Mode {
		case "closed":
			demand = workers / c.Latency
			if demand > 100*c.Rate && demand > 5000 { // would spin
			}
			c.Demand = demand * c.Dur
		case "open":
			if c.Load*c.Rate > 0.8*workers/c.Latency {
				c.Workers = int(math.Ceil(c.Load * c.Rate * c.Latency / 0.5 / float64(c.Procs)))
				if c.Workers > 2000 {
					continue
				}
				c.Workers = max(c.Workers, 2)
			}
			c.Demand = c.Load * c.Rate * c.Dur
			if c.Demand < 100 {
				continue
			}
		case "job":
			stepped = false
			c.Ideal = 0
			switch c.Kind {
			case "tb":
				c.Ideal = max(0, float64(c.Work)-cap0) / c.Rate
			default:
				c.Ideal = math.Ceil(float64(c.Work)/float64(c.Count)-1) * c.Period
			}
			c.Ideal = max(c.Ideal, c.Latency*math.Ceil(float64(c.Work)/workers)) + 2*c.Latency
			c.Dur = 10*c.Ideal + 60*c.Latency + 60 + 20/c.Rate
			if c.Kind != "tb" {
				c.Dur += 3 * c.Period
			}
			if c.Dur > 10*86400 {
				continue
			}
		}
		// Each process has some requests to learn from.
		have := cap0 + c.Rate*c.Dur
		if c.Mode == "job" {
			have = float64(c.Work)
		}
		if min(have, c.Demand+1e18*b2f(c.Mode == "job"))/float64(c.Procs) < 20 {
			continue
		}
		// Erlang: uncoordinated arrivals at a small burst cannot be all served.
		if b := float64(c.Burst); c.Kind == "tb" && b < min(5, 1+float64(c.Procs)/2+c.Rate*c.Latency/10) {
			continue
		}
		if c.Kind != "tb" && float64(c.Count) < float64(c.Procs) {
			continue
		}
		if stepped {
			c.Steps = []float64{c.Dur / 3, k1, 2 * c.Dur / 3, k2}
			if c.Kind == "sl" && float64(c.Count)*max(k1, k2) > 900000 {
				continue
			}
		}
		c.Long = c.Mode == "closed" && c.Procs > 1 && c.Dur >= 120 && c.Rate*c.Dur/float64(c.Procs) >= 60 &&
			workers/c.Latency > 1.5*c.Rate*5
		break
	}
	g := sim.Group{Processes: c.Procs, Workers: c.Workers}
	switch c.Mode {
	case "open":
		g.Arrivals = c.Load * c.Rate / float64(c.Procs)
	case "job":
		g.Work = c.Work
	}
	kind := map[string]limit.Kind{"tb": limit.TokenBucket, "fw": limit.FixedWindow, "sl": limit.SlidingLog}[c.Kind]
	c.s = sim.Scenario{
		Name: fmt.Sprint("cell", id), Duration: secs(c.Dur),
		Server: sim.Server{
			Limit: limit.Limit{Kind: kind, Count: c.Count, Period: secs(c.Period), Burst: c.Burst},
			Hints: sim.Hints{
				Remaining: strings.Contains(c.Hints, "R"), RetryAfter: strings.Contains(c.Hints, "A"),
				Reset: strings.Contains(c.Hints, "S"), Policy: strings.Contains(c.Hints, "P"),
			},
		},
		Network: sim.Network{Latency: secs(c.Latency), Spread: 0.2},
		Clients: []sim.Group{g},
	}
	if c.Start >= 0 {
		c.s.Server.Start = pace.Some(c.Start)
	}
	for i := 0; i < len(c.Steps); i += 2 {
		n := max(1, int64(math.Round(float64(c.Count)*c.Steps[i+1])))
		c.s.Server.Changes = append(c.s.Server.Changes, sim.Change{At: secs(c.Steps[i]), Count: n, Period: secs(c.Period)})
	}
	if err := c.s.Check(); err != nil {
		panic(fmt.Sprint(c, err))
	}
	return c
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func ratio(rate float64) (int64, float64) {
	for _, p := range []float64{1, 60, 3600} {
		if rate*p >= 10 {
			return int64(math.Round(rate * p)), p
		}
	}
	return max(1, int64(math.Round(rate*3600))), 3600
}

func secs(s float64) time.Duration { return time.Duration(s * 1e9) }

// Fig is what a policy came to, medians over the seeds.
type Fig struct{ Retry, Util, P50, P99, Jain, Finish float64 }

func run(c *Cell, p sim.Policy, seeds int) Fig {
	var all [6][]float64
	for seed := range seeds {
		r := sim.New(c.s, p, uint64(1000+seed))
		r.MaxSent = 400_000
		for !r.Step(100_000) {
		}
		res := r.Result()
		served := float64(res.Served)
		avail := served / max(res.Utilisation.V, 1e-9)
		if served == 0 {
			avail = 1e9
		}
		if res.Cut { // it ran into the bound: what it would have needed
			avail *= 1
		}
		util := served / min(avail, max(c.Demand, 1))
		if c.Mode == "job" {
			util = 1
		}
		finish := res.Finish.V
		if c.Mode == "job" && !res.Finish.OK {
			finish = c.Dur * 2
		}
		jain := res.Jain.V
		p99 := res.WaitP99.V
		if !res.WaitP99.OK {
			p99 = c.Dur
		}
		for i, v := range []float64{res.RetryRate.V, util, res.WaitP50.V, p99, jain, finish} {
			all[i] = append(all[i], v)
		}
	}
	med := func(x []float64) float64 { sort.Float64s(x); return x[len(x)/2] }
	return Fig{med(all[0]), med(all[1]), med(all[2]), med(all[3]), med(all[4]), med(all[5])}
}

func policy(text string) sim.Policy {
	if name, ok := strings.CutPrefix(text, "law2"); ok {
		blind := strings.HasPrefix(name, "-blind")
		hears := sim.Hints{RetryAfter: true}
		if !blind {
			hears = sim.Hints{Remaining: true, RetryAfter: true, Reset: true, Policy: true, Share: true}
		}
		return sim.Policy{Name: text, Hears: hears, New: func() pace.Controller { return newLaw(blind) }}
	}
	p, err := sim.ParsePolicy(text)
	if err != nil {
		panic(err)
	}
	return p
}

var peerNames = []string{"aws-adaptive", "backoff-jitter", "proportional-remaining", "aimd"}

// Score is how a law did in a cell.
type Score struct{ Retry, Util, Wait, Jain, Finish, Pareto bool }

func (s Score) pass() bool { return s.Retry && s.Util && s.Wait && s.Jain && s.Finish }

func score(c *Cell, f Fig, peers map[string]Fig, blind bool) (s Score) {
	best, wait := math.Inf(1), math.Inf(1)
	for _, n := range peerNames {
		p := peers[n]
		best = min(best, p.Retry)
		if p.Retry <= 3*max(f.Retry, 0.01) {
			wait = min(wait, p.P99)
		}
		better := func(a, b float64) bool { return a < 0.9*b } // a is less
		work := better(f.Util, p.Util)
		if c.Mode == "job" {
			work = better(p.Finish, f.Finish)
		}
		if better(p.Retry, f.Retry) && better(p.P99, f.P99) && work && f.Retry > 0.005 {
			s.Pareto = true
		}
	}
	bound, slow := 0.05, 1.2
	if blind {
		bound, slow = 0.1, 1.4
	}
	s.Retry = f.Retry <= max(bound, best)
	s.Util = f.Util >= 0.9
	ideal := max(2, 2*c.Latency)
	if c.Mode != "open" { // who waits in turn
		ideal = max(ideal, 3*(float64(c.Procs*c.Workers)/c.Rate+c.Latency))
		if c.Kind != "tb" {
			ideal = max(ideal, 1.5*c.Period)
		}
	}
	s.Wait = f.P99 <= ideal || f.P99 <= 3*wait && !math.IsInf(wait, 1)
	s.Jain = !c.Long || f.Jain >= 0.9
	s.Finish = c.Mode != "job" || f.Finish <= slow*c.Ideal
	return s
}

func flags(s Score) string {
	out := ""
	for _, x := range []struct {
		ok bool
		n  string
	}{{s.Retry, "retry"}, {s.Util, "util"}, {s.Wait, "wait"}, {s.Jain, "jain"}, {s.Finish, "finish"}} {
		if !x.ok {
			out += " " + x.n
		}
	}
	if s.Pareto {
		out += " PARETO"
	}
	return out
}

func main() {
	n := flag.Int("n", 150, "cells")
	seed := flag.Uint64("seed", 1, "of the grid")
	seeds := flag.Int("seeds", 3, "runs")
	store := flag.String("peers", "/tmp/grid/peers", "where peers are kept")
	law := flag.String("law", "law2", "law2 or adaptive")
	only := flag.String("only", "", "ids, comma separated")
	mode := flag.String("which", "both", "blind, informed or both")
	list := flag.Bool("v", false, "list failing cells")
	flag.Parse()
	cells := make([]*Cell, *n)
	for i := range cells {
		c := draw(*seed, i)
		cells[i] = &c
	}
	file := fmt.Sprintf("%s-%d-%d.json", *store, *seed, *n)
	peers := make([]map[string]Fig, *n)
	if b, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(b, &peers); err != nil {
			panic(err)
		}
	} else {
		parallel(*n, func(i int) {
			m := map[string]Fig{}
			for _, name := range append(slices.Clone(peerNames), "adaptive", "adaptive-informed") {
				m[name] = run(cells[i], policy(name), *seeds)
			}
			m["omniscient"] = run(cells[i], omniscient(cells[i]), *seeds)
			peers[i] = m
		})
		b, _ := json.Marshal(peers)
		if err := os.WriteFile(file, b, 0o644); err != nil {
			panic(err)
		}
	}
	var ids []int
	for i := range cells {
		if *only == "" || slices.Contains(strings.Split(*only, ","), fmt.Sprint(i)) {
			ids = append(ids, i)
		}
	}
	names := map[string][2]string{"law2": {"law2-blind", "law2"}, "adaptive": {"adaptive", "adaptive-informed"}}[*law]
	if names[0] == "" { // a peer, by its kept figures
		names = [2]string{*law, *law}
	}
	for k, kind := range []string{"blind", "informed"} {
		if *mode != "both" && *mode != kind {
			continue
		}
		figs := make([]Fig, *n)
		began := time.Now()
		parallel(len(ids), func(j int) {
			i := ids[j]
			if f, ok := peers[i][names[k]]; ok {
				figs[i] = f
				return
			}
			figs[i] = run(cells[i], policy(names[k]), *seeds)
		})
		report(cells, ids, figs, peers, k == 0, *list || *only != "", names[k])
		fmt.Fprintf(os.Stderr, "%.0f s\n", time.Since(began).Seconds())
	}
}

// possible reports whether anybody passes.
func possible(c *Cell, peers map[string]Fig, mine Fig, blind bool) bool {
	if score(c, mine, peers, blind).pass() {
		return true
	}
	for _, f := range peers {
		if score(c, f, peers, blind).pass() {
			return true
		}
	}
	return false
}

func report(cells []*Cell, ids []int, figs []Fig, peers []map[string]Fig, blind, list bool, name string) {
	var all, pass, pareto, nowPass int
	miss := map[string]int{}
	by := map[string][2]int{}
	var geo [4]float64
	for _, i := range ids {
		c, f := cells[i], figs[i]
		now := peers[i]["adaptive-informed"]
		if blind {
			now = peers[i]["adaptive"]
		}
		if !blind && !strings.ContainsAny(c.Hints, "RSP") {
			continue
		}
		if !possible(c, peers[i], f, blind) {
			if list {
				fmt.Printf("  IMPOSSIBLE %v | %s | omn %s\n", c, show(c, f), show(c, peers[i]["omniscient"]))
			}
			continue
		}
		all++
		s := score(c, f, peers[i], blind)
		t := score(c, now, peers[i], blind)
		if t.pass() {
			nowPass++
		}
		geo[0] += math.Log((f.Retry + 0.005) / (now.Retry + 0.005))
		geo[1] += math.Log(max(f.P99, 0.1) / max(now.P99, 0.1))
		geo[2] += math.Log(max(f.Util, 0.01) / max(now.Util, 0.01))
		if c.Mode == "job" {
			geo[3] += math.Log(f.Finish / now.Finish)
		}
		for _, key := range []string{c.Mode, c.Kind} {
			b := by[key]
			b[1]++
			if s.pass() {
				b[0]++
			}
			by[key] = b
		}
		if s.Pareto {
			pareto++
		}
		if s.pass() {
			pass++
		} else {
			for _, x := range strings.Fields(flags(s)) {
				miss[x]++
			}
		}
		if list && (!s.pass() || s.Pareto) {
			fmt.Printf("  %v |%s\n      law %s | now %s", c, flags(s), show(c, f), show(c, now))
			for _, n := range append(slices.Clone(peerNames), "omniscient") {
				fmt.Printf(" | %.4s %s", n, show(c, peers[i][n]))
			}
			fmt.Println()
		}
	}
	k := float64(max(all, 1))
	fmt.Printf("%s: pass %d of %d (now %d); pareto-beaten %d; misses %v; by %v; vs now: retry x%.2f p99 x%.2f util x%.3f finish x%.2f\n",
		name, pass, all, nowPass, pareto, miss, by, math.Exp(geo[0]/k), math.Exp(geo[1]/k), math.Exp(geo[2]/k), math.Exp(geo[3]/k*3))
}

func show(c *Cell, f Fig) string {
	out := fmt.Sprintf("%.1f%% p99 %.3gs", 100*f.Retry, f.P99)
	if c.Mode == "job" {
		return out + fmt.Sprintf(" fin %.3g", f.Finish)
	}
	out += fmt.Sprintf(" u%.2f", f.Util)
	if c.Long {
		out += fmt.Sprintf(" j%.2f", f.Jain)
	}
	return out
}

func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				f(i)
			}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// omniscient shares one limiter among all processes, which knows the limit.
type shared struct {
	c     *Cell
	state limit.State
	log   limit.Log
	steps []sim.Change
	l     limit.Limit
	level bool
}

type member struct{ *shared }

func omniscient(c *Cell) sim.Policy {
	return sim.Policy{Name: "omniscient", Begin: func() func() pace.Controller {
		s := &shared{c: c, l: c.s.Server.Limit}
		if c.Start >= 0 {
			a := limit.Ask{Limit: s.l, N: s.l.Burst - c.Start, Debt: true}
			s.state, _ = limit.Take(s.state, time.Unix(0, 0), a)
		}
		return func() pace.Controller { return &member{s} }
	}}
}

func (m *member) ask(now time.Time, n int64) limit.Decision {
	s := m.shared
	at := now.Add(secs(s.c.Latency / 2))
	for _, ch := range s.c.s.Server.Changes[len(s.steps):] {
		if at.Sub(time.Unix(0, 0)) < ch.At {
			break
		}
		next := s.l
		next.Count, next.Period = ch.Count, ch.Period
		if s.l.Kind != limit.SlidingLog {
			s.state = limit.Change(s.state, at, s.l, next)
		}
		s.l, s.steps = next, append(s.steps, ch)
	}
	if s.l.Kind == limit.SlidingLog {
		return s.log.Take(at, limit.Ask{Limit: s.l, N: n})
	}
	st, d := limit.Take(s.state, at, limit.Ask{Limit: s.l, N: n})
	if n > 0 {
		s.state = st
	}
	return d
}

func (m *member) Wait(now time.Time, r pace.Request) time.Duration {
	d := m.ask(now, 0)
	if d.Remaining >= 1 {
		return 0
	}
	// ask how long until one passes
	s := m.shared
	at := now.Add(secs(s.c.Latency / 2))
	if s.l.Kind == limit.SlidingLog {
		if t := s.log.Take(at, limit.Ask{Limit: s.l, N: 0, Min: 1}); !t.OK {
			return max(t.RetryAfter, time.Microsecond)
		}
		return 0
	}
	_, t := limit.Take(s.state, at, limit.Ask{Limit: s.l, N: 1})
	if t.OK {
		return 0
	}
	return max(t.RetryAfter, time.Microsecond)
}

func (m *member) Start(now time.Time, r pace.Request) { m.ask(now, 1) }

func (m *member) Observe(now time.Time, o pace.Outcome) time.Duration { return 0 }
