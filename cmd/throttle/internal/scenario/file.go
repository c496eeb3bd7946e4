package scenario

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
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
	maxTail     = 3.0
	maxQuotas   = 16
	maxNodes    = 1_000
	maxKeys     = 10_000
	maxScopes   = 1_000_000
)

// scenarioFile reads a scenario from a YAML file.
func scenarioFile(path string) (sim.Scenario, error) {
	data, err := readFile(path)
	if err != nil {
		return sim.Scenario{}, err
	}
	return Parse(path, data)
}

// Parse reads a scenario from the content of the file called path, - if it is
// standard input. Its errors are one line: file:line:column: what; what would be right.
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
			y.fail(y.misfit(body, err), "%v", err)
		}
	}
	return s, y.err
}

// misfit is what does not fit the rest of a file whose parts are each good: the
// first field of the server that err names, or the server.
func (y *yamlFile) misfit(body ast.Node, err error) ast.Node {
	if why := errors.Unwrap(err); why != nil {
		err = why // without the name of the scenario, which may be that of a field
	}
	f := y.mapping(y.mapping(body, "scenario").get("server").node, "server")
	for word := range strings.FieldsSeq(err.Error()) {
		if x := f.get(word); x.present() {
			return x.node
		}
	}
	return f.node
}

func (y *yamlFile) scenario(body ast.Node) sim.Scenario {
	f := y.mapping(body, "scenario", "name", "duration", "server", "network", "stop", "clients", "settings")
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
	s.Settings = y.presets(f.get("settings"))
	if s.Duration == 0 {
		// Until the work is done, be it never.
		s.Duration = maxTime
	}
	return s
}

// name is the name of the scenario: that of the file, unless it says another. Standard
// input is stdin.
func (y *yamlFile) name(f field) string {
	base := filepath.Base(y.path)
	name := strings.TrimSuffix(base, filepath.Ext(base))
	if y.path == dash {
		name = "stdin"
	}
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

func (y *yamlFile) network(s *sim.Scenario, f field) {
	s.Network = sim.Network{Latency: 100 * time.Millisecond, Spread: 0.2}
	if !f.present() {
		return
	}
	g := y.mapping(f.node, "network", "latency", "spread", "tail", "loss")
	if latency := g.get("latency"); latency.present() {
		s.Network.Latency = latency.duration(time.Microsecond, time.Hour)
	}
	if spread := g.get("spread"); spread.present() {
		s.Network.Spread = spread.share()
	}
	s.Network.Tail = g.get("tail").number(0, maxTail)
	s.Network.Loss = g.get("loss").share()
}

func (y *yamlFile) stop(s *sim.Scenario, f field) {
	if !f.present() {
		return
	}
	g := y.mapping(f.node, "stop", "remaining", "sent")
	remaining, sent := g.get("remaining"), g.get("sent")
	switch {
	case !remaining.present() && !sent.present():
		f.fail("needs a remaining or a sent, as in {remaining: 10}")
	case remaining.present() && s.Server.Limit.Unlimited():
		y.fail(f.key, "stop: remaining needs a server with a limit")
	case remaining.present():
		s.Stop.Remaining = pace.Some(remaining.integer(0, maxCount))
		if most := mostLeft(&s.Server); most > 0 && s.Stop.Remaining.V >= most-1 {
			remaining.fail("must be below %d, which the first answer of a full limit leaves, as else that ends the run", most-1)
		}
	}
	s.Stop.Sent = sent.integer(1, maxCount)
}

// mostLeft is the most that the limit of a server ever has left.
func mostLeft(s *sim.Server) int64 {
	if s.Limit.Kind == limit.TokenBucket {
		return s.Limit.Burst + s.Queue
	}
	most := max(s.Limit.Count, s.Scale.Max)
	for _, c := range s.Changes {
		most = max(most, c.Count)
	}
	return most
}

// presets are the settings that the scenario gives to policies by name.
func (y *yamlFile) presets(f field) map[string]string {
	if !f.present() {
		return nil
	}
	all := map[string]string{}
	for _, family := range y.mapping(f.node, "settings").list {
		if _, err := policy.Parse(family.name); err != nil {
			y.fail(family.key, "%v", err)
			return nil
		}
		if set := y.settings(family.name, y.mapping(family.node, family.name).list); len(set) > 0 {
			all[family.name] = strings.Join(set, ",")
		}
	}
	return all
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
	const needs = "policy: needs a name, as in none, backoff(factor=2) or {name: backoff, factor: 2}"
	if _, list := f.node.(*ast.SequenceNode); list {
		y.fail(f.node, needs)
		return nil
	}
	g := y.mapping(f.node, "policy")
	family := g.get("name")
	name, ok := family.scalar()
	if !ok {
		y.fail(f.node, needs)
		return nil
	}
	if _, err := policy.Parse(name); err != nil {
		y.fail(family.node, "%v", err)
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(g.list), func(f field) bool { return f.name == "name" })
	p, err := policy.Parse(fmt.Sprintf("%s(%s)", name, strings.Join(y.settings(name, others), ",")))
	if err != nil {
		y.fail(g.node, "%v", err)
	}
	return &p
}

// settings are those of the named policy as name=value. Each is tried by itself,
// to find the one that is wrong.
func (y *yamlFile) settings(name string, list []field) (set []string) {
	for _, f := range list {
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
	return set
}
