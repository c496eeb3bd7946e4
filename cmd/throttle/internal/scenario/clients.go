package scenario

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

func (y *yamlFile) clients(s *sim.Scenario, top fields) {
	f := top.get("clients")
	groups := f.sequence(maxGroups, "[{processes: 2, workers: 5}]")
	if len(groups) == 0 {
		at := top.node
		if f.present() {
			at = f.node
		}
		y.fail(at, "no clients; write clients: [{processes: 2, workers: 5}]")
		return
	}
	var workers, arriving int
	for _, n := range groups {
		g := y.group(n, s)
		if y.err != nil {
			return
		}
		workers += g.Processes * g.Workers
		if g.Arrivals > 0 || len(g.Steps) > 0 || len(g.Trace) > 0 {
			arriving += g.Processes
		}
		switch {
		case workers > maxWorkers:
			y.fail(n, "clients: %d workers up to here; at most %d in all", workers, maxWorkers)
		case arriving > maxArriving:
			y.fail(n, "clients: %d processes with arrivals up to here; at most %d in all", arriving, maxArriving)
		}
		s.Clients = append(s.Clients, g)
	}
	if s.Duration == 0 {
		y.ends(s, groups)
	}
}

// measured reports whether a group counts in the measures.
func measured(g sim.Group) bool { return g.Policy == nil && !g.Rival }

// ends refuses clients whose work would never end: measured ones, or any where
// none is measured and nothing stops the run.
func (y *yamlFile) ends(s *sim.Scenario, groups []ast.Node) {
	all := !slices.ContainsFunc(s.Clients, measured) && s.Stop == sim.Stop{}
	for i, g := range s.Clients {
		if g.Work == 0 && (all || measured(g)) {
			y.fail(groups[i], "clients whose work never ends, and no duration; write duration: 30m, or work: 1000 here")
		}
	}
}

// group is one of the clients.
func (y *yamlFile) group(n ast.Node, s *sim.Scenario) sim.Group {
	f := y.mapping(n, "clients", "processes", "workers", "join", "leave", "every", "policy", "rival", "work", "on", "off", "arrivals",
		"timeout", "patience", "deadline", "retries", "budget", "cost", "keys", "scopes", "clock")
	if y.err != nil {
		return sim.Group{}
	}
	g := sim.Group{
		Processes: int(max(f.get("processes").integer(1, maxWorkers), 1)),
		Workers:   int(max(f.get("workers").integer(1, maxWorkers), 1)),
		Join:      f.get("join").duration(0, maxTime),
		Leave:     f.get("leave").duration(0, maxTime),
		Every:     f.get("every").duration(0, maxTime),
		Rival:     f.get("rival").yes(),
		Work:      f.get("work").integer(1, maxCount),
		On:        f.get("on").duration(time.Millisecond, maxTime),
		Off:       f.get("off").duration(time.Millisecond, maxTime),
		Policy:    y.policy(f.get("policy")),
	}
	switch join, leave, on, off := f.get("join"), f.get("leave"), f.get("on"), f.get("off"); {
	case y.err != nil:
	case s.Duration > 0 && g.Join >= s.Duration:
		join.fail("must be before the end of the run at %s", words.Short(s.Duration))
	case leave.present() && g.Leave <= g.Join:
		leave.fail("must be after the join at %s", words.Short(g.Join))
	case on.present() != off.present():
		y.fail(n, "clients: on and off go together, as in {on: 10s, off: 60s}")
	case g.Every > 0 && time.Duration(g.Processes) > maxTime/g.Every:
		f.get("every").fail("the last of %d processes would join after more than %s", g.Processes, words.Short(maxTime))
	}
	y.arrivals(&g, f.get("arrivals"))
	if len(g.Trace) > 0 && s.Duration > 0 && g.Trace[0] >= s.Duration {
		y.fail(n, "clients: the trace begins at %s; it must begin before the end of the run at %s", words.Short(g.Trace[0]), words.Short(s.Duration))
	}
	y.calls(&g, f)
	if s.Network.Loss > 0 && g.Timeout == 0 {
		y.fail(n, "clients: calls are lost, and would wait forever; write timeout: 2s, or leave loss out")
	}
	g.Cost = y.cost(f.get("cost"), s.Server.MaxCost())
	return g
}

// calls are what is special about the calls of a group.
func (y *yamlFile) calls(g *sim.Group, f fields) {
	g.Timeout = f.get("timeout").duration(time.Millisecond, maxTime)
	g.Patience = f.get("patience").duration(time.Millisecond, maxTime)
	g.Deadline = f.get("deadline").duration(time.Millisecond, maxTime)
	g.Clock = f.get("clock").duration(time.Millisecond, maxTime)
	g.Keys = int(f.get("keys").integer(1, maxKeys))
	scopes := f.get("scopes")
	if g.Scopes = scopes.yes(); g.Scopes && g.Processes*g.Workers > maxScopes/max(g.Keys, 1) {
		scopes.fail("makes %d for each of %d workers; at most %d in all", max(g.Keys, 1), g.Processes*g.Workers, maxScopes)
	}
	if retries := f.get("retries"); retries.present() {
		if g.Retries = int(retries.integer(0, 1000)); g.Retries == 0 {
			g.Retries = -1
		}
	}
	if budget := f.get("budget"); budget.present() {
		b := y.mapping(budget.node, "budget", "max", "retry", "call")
		g.Budget = pace.Budget{
			Max: b.get("max").number(0.001, maxCount), Retry: b.get("retry").number(0.001, maxCount), Call: b.get("call").number(0, maxCount),
		}
	}
}

// cost is what calls cost, their mean most at most.
func (y *yamlFile) cost(f field, most int64) (c sim.Cost) {
	if !f.present() {
		return c
	}
	mean := f
	if f.node.Type() != ast.IntegerType {
		g := y.mapping(f.node, "cost", "mean", "spread", "tail", "estimate")
		if mean = g.get("mean"); !mean.present() {
			y.fail(f.node, "cost: no mean; write cost: 500, or {mean: 500, spread: 0.5}")
		}
		c.Spread, c.Tail, c.Estimate = g.get("spread").share(), g.get("tail").number(0, maxTail), g.get("estimate").integer(1, maxCount)
	}
	if c.Mean = mean.integer(1, maxCount); c.Mean > most {
		mean.fail("must be at most %d, what the limit grants at once", most)
	}
	return c
}
