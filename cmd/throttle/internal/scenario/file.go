package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// Bounds of a scenario in a file.
const (
	maxTime    = 366 * 24 * time.Hour
	maxCount   = 1_000_000_000
	maxGroups  = 1_000
	maxChanges = 10_000
	maxWorkers = 1_000_000
	// maxArriving bounds the processes whose calls arrive by themselves, each
	// of which may have 10,000 waiting.
	maxArriving = 1_000
	maxName     = 64
)

// scenarioFile reads a scenario from a YAML file.
func scenarioFile(path string) (sim.Scenario, error) {
	data, err := readFile(path)
	if err != nil {
		return sim.Scenario{}, err
	}
	return Parse(path, data)
}

// Parse reads a scenario from the content of the file called path. Its
// errors are one line: file:line:column: what; what would be right.
func Parse(path string, data []byte) (sim.Scenario, error) {
	y := &yamlFile{path: path}
	body := y.parse(data)
	if y.err != nil {
		return sim.Scenario{}, y.err
	}
	s := y.scenario(body)
	if y.err == nil {
		policy.TellGroups(&s)
		if err := s.Check(); err != nil {
			y.fail(body, "%v", err)
		}
	}
	return s, y.err
}

func (y *yamlFile) scenario(body ast.Node) sim.Scenario {
	f := y.mapping(body, "scenario", "name", "duration", "server", "network", "stop", "clients")
	s := sim.Scenario{
		Name:     y.name(f.get("name")),
		Duration: f.get("duration").duration(time.Millisecond, maxTime),
	}
	if y.err != nil {
		return s
	}
	y.server(&s, f)
	y.network(&s, f.get("network"))
	y.stop(&s, f.get("stop"))
	y.clients(&s, f)
	if s.Duration == 0 {
		// Until the work is done, be it never.
		s.Duration = maxTime
	}
	return s
}

// name is the name of the scenario: that of the file, unless it says another.
func (y *yamlFile) name(f field) string {
	base := filepath.Base(y.path)
	name := strings.TrimSuffix(base, filepath.Ext(base))
	if f.present() {
		if name, _ = f.scalar(); !goodName(name) {
			f.fail("must be letters, digits, '-', '_' and '.', at most %d", maxName)
		}
	} else if !goodName(name) {
		y.failAt(1, 1, "the scenario has no name; write name: and letters, digits, '-', '_' and '.', at most %d", maxName)
	}
	if _, taken := sim.Find(name); taken {
		what := "%s is the name of a built-in scenario; write name: and another"
		if f.present() {
			y.fail(f.node, what, name)
		}
		y.failAt(1, 1, what, name)
	}
	return name
}

func goodName(name string) bool {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, odd)
}

func (y *yamlFile) server(s *sim.Scenario, top fields) {
	server := top.get("server")
	if !server.present() {
		y.fail(top.node, "no server; write server: {rate: 4/s, burst: 8}")
		return
	}
	f := y.mapping(server.node, "server", "limit", "rate", "burst", "start", "hints", "errors", "changes")
	if y.err != nil {
		return
	}
	s.Server.Limit = y.limit(f)
	if l := s.Server.Limit; f.get("start").present() && y.err == nil {
		s.Server.Start = pace.Some(f.get("start").integer(0, l.Burst))
	}
	s.Server.Errors = f.get("errors").share()
	s.Server.Hints = y.hints(f.get("hints"))
	s.Server.Changes = y.changes(f.get("changes"), s.Duration)
	dry := func(c sim.Change) bool { return c.Count == 0 }
	if zero := s.Server.Limit.Count == 0 || slices.ContainsFunc(s.Server.Changes, dry); zero && s.Duration == 0 && f.get("rate").present() {
		y.fail(f.get("rate").key, "a rate of 0, and no duration; write duration: 30m")
	}
}

// limit is what the server allows.
func (y *yamlFile) limit(f fields) limit.Limit {
	var l limit.Limit
	kind := f.get("limit")
	word, _ := kind.scalar()
	switch {
	case !kind.present() || word == "token-bucket" || word == "gcra":
	case word == "fixed-window":
		l.Kind = limit.FixedWindow
		y.without(f, "a fixed window has none; leave it out", "burst", "start")
	case word == "sliding-log":
		l.Kind = limit.SlidingLog
		y.without(f, "a sliding log has none; leave it out", "burst", "start")
	case word == "none":
		y.without(f, "a server with limit none has none; leave it out", "rate", "burst", "start", "changes")
		return l
	case word == "sliding-window" || word == "leaky-bucket" || word == "concurrency":
		kind.y.fail(kind.node, "limit %s is not simulated yet; use token-bucket, fixed-window, sliding-log or none", word)
	default:
		kind.fail("is not known; use token-bucket, fixed-window, sliding-log or none")
	}
	rate := f.get("rate")
	if !rate.present() {
		y.fail(f.node, "server: no rate; write one, as in rate: 4/s, or limit: none")
	}
	if y.err != nil {
		return l
	}
	l.Count, l.Period = rate.rate()
	if l.Kind != limit.TokenBucket {
		return l
	}
	if l.Burst = f.get("burst").integer(1, maxCount); l.Burst == 0 {
		l.Burst = max(1, int64(float64(l.Count)/l.Period.Seconds()))
	}
	return l
}

// without refuses fields that have no meaning here.
func (y *yamlFile) without(f fields, why string, names ...string) {
	for _, name := range names {
		if x := f.get(name); x.present() {
			y.fail(x.key, "%s: %s", name, why)
		}
	}
}

func (y *yamlFile) hints(f field) (h sim.Hints) {
	known := []struct {
		name string
		is   *bool
	}{{"remaining", &h.Remaining}, {"retry-after", &h.RetryAfter}, {"reset", &h.Reset}, {"policy", &h.Policy}, {"share", &h.Share}}
	for _, n := range f.sequence(len(known)) {
		found := false
		for _, k := range known {
			if word, _ := (field{node: n}).scalar(); word == k.name {
				found, *k.is = true, true
			}
		}
		if !found {
			y.fail(n, "hint %s is not known; known are remaining, retry-after, reset, policy, share", show(n))
		}
	}
	return h
}

func (y *yamlFile) changes(f field, end time.Duration) (changes []sim.Change) {
	last := time.Duration(-1)
	for _, n := range f.sequence(maxChanges) {
		c := y.mapping(n, "change", "at", "rate", "retry_after")
		at, rate := c.get("at"), c.get("rate")
		if !at.present() || !rate.present() {
			y.fail(n, "change: needs a time and a rate, as in {at: 10m, rate: 8/s}")
		}
		if y.err != nil {
			return nil
		}
		var change sim.Change
		change.At = at.duration(0, maxTime)
		change.Count, change.Period = rate.rate()
		change.RetryAfter = c.get("retry_after").duration(time.Second, maxTime)
		switch {
		case change.At <= last:
			at.fail("must be later than the change before it")
		case end > 0 && change.At >= end:
			at.fail("must be before the end of the run at %s", words.Short(end))
		}
		last = change.At
		changes = append(changes, change)
	}
	return changes
}

func (y *yamlFile) network(s *sim.Scenario, f field) {
	s.Network = sim.Network{Latency: 100 * time.Millisecond, Spread: 0.2}
	if !f.present() {
		return
	}
	g := y.mapping(f.node, "network", "latency", "spread")
	if latency := g.get("latency"); latency.present() {
		s.Network.Latency = latency.duration(time.Microsecond, time.Hour)
	}
	if spread := g.get("spread"); spread.present() {
		s.Network.Spread = spread.share()
	}
}

func (y *yamlFile) stop(s *sim.Scenario, f field) {
	if !f.present() {
		return
	}
	remaining := y.mapping(f.node, "stop", "remaining").get("remaining")
	switch {
	case !remaining.present():
		f.fail("needs a remaining, as in {remaining: 10}")
	case s.Server.Limit.Unlimited():
		y.fail(f.key, "stop: needs a server with a limit")
	default:
		s.Stop.Remaining = pace.Some(remaining.integer(0, maxCount))
	}
}

func (y *yamlFile) clients(s *sim.Scenario, top fields) {
	f := top.get("clients")
	groups := f.sequence(maxGroups)
	if len(groups) == 0 {
		y.fail(top.node, "no clients; write clients: [{processes: 2, workers: 5}]")
		return
	}
	var workers, arriving int
	for _, n := range groups {
		g := y.group(n, s.Duration)
		if y.err != nil {
			return
		}
		workers += g.Processes * g.Workers
		if g.Arrivals > 0 {
			arriving += g.Processes
		}
		endless := g.Work == 0 && g.Policy == nil && !g.Rival
		switch {
		case workers > maxWorkers:
			y.fail(n, "clients: %d workers up to here; at most %d in all", workers, maxWorkers)
		case arriving > maxArriving:
			y.fail(n, "clients: %d processes with arrivals up to here; at most %d in all", arriving, maxArriving)
		case endless && s.Duration == 0:
			y.fail(n, "clients whose work never ends, and no duration; write duration: 30m, or work: 1000 here")
		}
		s.Clients = append(s.Clients, g)
	}
}

// group is one of the clients.
func (y *yamlFile) group(n ast.Node, end time.Duration) sim.Group {
	f := y.mapping(n, "clients", "processes", "workers", "join", "leave", "every", "policy", "rival", "work", "on", "off", "arrivals")
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
	case end > 0 && g.Join >= end:
		join.fail("must be before the end of the run at %s", words.Short(end))
	case leave.present() && g.Leave <= g.Join:
		leave.fail("must be after the join at %s", words.Short(g.Join))
	case on.present() != off.present():
		y.fail(n, "clients: on and off go together, as in {on: 10s, off: 60s}")
	case g.Every > 0 && time.Duration(g.Processes) > maxTime/g.Every:
		f.get("every").fail("the last of %d processes would join after more than %s", g.Processes, words.Short(maxTime))
	}
	if arrivals := f.get("arrivals"); arrivals.present() {
		count, period := arrivals.rate()
		g.Arrivals = float64(count) / max(period.Seconds(), 1e-3)
		if g.Arrivals <= 0 || g.Arrivals > 1e6 {
			arrivals.fail("must be above 0 and at most 1000000/s")
		}
	}
	return g
}

// policy is a policy as text, backoff(factor=2), or as a mapping,
// {name: backoff, factor: 2}.
func (y *yamlFile) policy(f field) *sim.Policy {
	if !f.present() {
		return nil
	}
	if text, ok := f.scalar(); ok {
		p, err := policy.Parse(text)
		if err != nil {
			y.fail(f.node, "%v", err)
		}
		return &p
	}
	g := y.mapping(f.node, "policy")
	family := g.get("name")
	name, ok := family.scalar()
	if !ok {
		f.y.fail(f.node, "policy: needs a name, as in none, backoff(factor=2) or {name: backoff, factor: 2}")
		return nil
	}
	if _, err := policy.Parse(name); err != nil {
		y.fail(family.node, "%v", err)
		return nil
	}
	return y.settings(name, g)
}

// settings is the named policy with the other fields as its settings. Each is
// tried by itself first, to find the one that is wrong.
func (y *yamlFile) settings(name string, g fields) *sim.Policy {
	var set []string
	for _, f := range g.list {
		if f.name == "name" {
			continue
		}
		text, ok := f.scalar()
		if !ok || strings.ContainsAny(text+f.name, "(),=") {
			f.fail("must be a number, a duration or a word")
			return nil
		}
		item := f.name + "=" + text
		if _, err := policy.Parse(fmt.Sprintf("%s(%s)", name, item)); err != nil {
			y.fail(f.key, "%v", err)
			return nil
		}
		set = append(set, item)
	}
	p, err := policy.Parse(fmt.Sprintf("%s(%s)", name, strings.Join(set, ",")))
	if err != nil {
		y.fail(g.node, "%v", err)
	}
	return &p
}
