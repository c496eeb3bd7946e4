package sim

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// Policy is one way in which clients pace and retry. ParsePolicy makes those
// that are known by name; any other is a Policy with its fields set.
type Policy struct {
	// Name is the policy as it was written, with its settings.
	Name string
	// PerWorker gives each worker a Controller of its own; otherwise the
	// workers of a process share one.
	PerWorker bool
	// Hears selects the hints of a server that such clients read.
	Hears Hints
	// New makes a Controller. Several runs may call it at once.
	New func() pace.Controller
	// MaxInFlight bounds what each process, or worker if PerWorker, has in
	// flight. If zero or below, nothing does.
	MaxInFlight int
	// Concurrency makes the law of how many may be in flight, besides
	// MaxInFlight. If nil, there is none. Several runs may call it at once.
	Concurrency func() load.Law
	// Begin, if not nil, makes the New of one run, whose controllers may then
	// share state. They are made in the order of groups and processes. Several
	// runs may call it at once.
	Begin func() func() pace.Controller

	family *family
	set    []string // the settings as written: name=value
}

// family is a policy with its settings.
type family struct {
	name, about string
	settings    []Setting
	make        func(v *values) Policy
}

// Setting describes one setting of a policy.
type Setting struct{ Name, Default, About string }

// PolicyInfo describes a policy that ParsePolicy knows.
type PolicyInfo struct {
	Name, About string
	Settings    []Setting
}

// Policies describes every policy, in the order of their names in tables.
func Policies() []PolicyInfo {
	infos := make([]PolicyInfo, len(families))
	for i, f := range families {
		infos[i] = PolicyInfo{f.name, f.about, f.settings}
	}
	return infos
}

// ParsePolicy reads a policy, "adaptive", or one with settings,
// "backoff(factor=2, cap=30s)". The error says what would be right.
func ParsePolicy(text string) (Policy, error) {
	name, list, open := strings.Cut(strings.TrimSpace(text), "(")
	if open != strings.HasSuffix(list, ")") || strings.Count(text, ")") > 1 {
		return Policy{}, fmt.Errorf("policy %q: parentheses do not match; write NAME or NAME(setting=value, ...)", text)
	}
	f := findFamily(strings.TrimSpace(name))
	if f == nil {
		return Policy{}, fmt.Errorf("policy %q is not known; known are %s", strings.TrimSpace(name), policyNames())
	}
	var set []string
	given := map[string]bool{}
	for _, item := range strings.Split(strings.TrimSuffix(list, ")"), ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, _, _ := strings.Cut(item, "=")
		if name = strings.TrimSpace(name); given[name] {
			return Policy{}, fmt.Errorf("policy %s: setting %q occurs twice; write it once", f.name, name)
		}
		given[name] = true
		set = append(set, item)
	}
	return f.build(set, "")
}

func findFamily(name string) *family {
	for _, f := range families {
		if f.name == name {
			return &f
		}
	}
	return nil
}

func policyNames() string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

// build makes the policy with its settings; presets hold where set is silent.
func (f *family) build(set []string, presets string) (Policy, error) {
	v := values{family: f, text: make([]string, len(f.settings))}
	for i, s := range f.settings {
		v.text[i] = s.Default
	}
	for _, item := range strings.Split(presets, ",") {
		if item != "" {
			v.put(strings.TrimSpace(item))
		}
	}
	for _, item := range set {
		v.put(item)
	}
	p := f.make(&v)
	if v.has(inFlight.Name) {
		v.bound(&p)
	}
	if v.err != nil {
		return Policy{}, v.err
	}
	p.Name, p.family, p.set = f.name, f, set
	if len(set) > 0 {
		p.Name += "(" + strings.Join(set, ",") + ")"
	}
	return p, nil
}

// with is the policy under the presets of a scenario.
func (p Policy) with(settings map[string]string) Policy {
	if p.family == nil || settings[p.family.name] == "" {
		return p
	}
	q, err := p.family.build(p.set, settings[p.family.name])
	if err != nil {
		return p // Check has refused such a scenario
	}
	q.Name = p.Name
	return q
}

// begin is the policy in one run.
func (p Policy) begin() Policy {
	if p.Begin != nil {
		p.New = p.Begin()
	}
	return p
}

// deafen takes from a report what such a client does not read.
func (p *Policy) deafen(r *pace.Report) {
	if !p.Hears.RetryAfter {
		r.After = 0
	}
	if !p.Hears.Remaining {
		r.Hints.Remaining.OK = false
	}
	if !p.Hears.Reset {
		r.Hints.Reset.OK = false
	}
	if !p.Hears.Full {
		r.Hints.Full = pace.Opt[time.Duration]{}
	}
	if !p.Hears.Policy {
		size := r.Hints.Full.OK && !r.Hints.Window.OK // of a bucket that says when it is full
		r.Hints.Limit.OK = r.Hints.Limit.OK && size
		r.Hints.Window.OK, r.Hints.Burst.OK = false, false
	}
	if !p.Hears.Share {
		r.Hints.Share.OK = false
	}
}

// values are the settings of one policy as text, and the first error.
type values struct {
	family *family
	text   []string
	err    error
}

func (v *values) fail(format string, a ...any) {
	if v.err == nil {
		v.err = fmt.Errorf("policy %s: "+format, append([]any{v.family.name}, a...)...)
	}
}

func (v *values) put(item string) {
	name, text, ok := strings.Cut(item, "=")
	name = strings.TrimSpace(name)
	if !ok {
		v.fail("setting %q: write name=value", item)
		return
	}
	for i, s := range v.family.settings {
		if s.Name == name {
			v.text[i] = strings.TrimSpace(text)
			return
		}
	}
	known := make([]string, len(v.family.settings))
	for i, s := range v.family.settings {
		known[i] = s.Name
	}
	sort.Strings(known)
	if len(known) == 0 {
		v.fail("setting %q is not known; it has none", name)
		return
	}
	v.fail("setting %q is not known; known are %s", name, strings.Join(known, ", "))
}

func (v *values) get(name string) string {
	for i, s := range v.family.settings {
		if s.Name == name {
			return v.text[i]
		}
	}
	panic("sim: no setting " + name)
}

func (v *values) has(name string) bool {
	return slices.ContainsFunc(v.family.settings, func(s Setting) bool { return s.Name == name })
}

// duration reads a setting as a duration, zero or above.
func (v *values) duration(name string) time.Duration {
	d, err := time.ParseDuration(v.get(name))
	if err != nil || d < 0 || d > maxDuration {
		v.fail("%s=%s: must be a duration such as 500ms, 20s or 15m", name, v.get(name))
	}
	return d
}

// number reads a setting as a number within [least, most].
func (v *values) number(name string, least, most float64) float64 {
	x, err := strconv.ParseFloat(v.get(name), 64)
	if err != nil || !(x >= least && x <= most) {
		v.fail("%s=%s: must be a number from %v to %v", name, v.get(name), least, most)
	}
	return x
}

// choice reads a setting that is one of a few words, and returns its index.
func (v *values) choice(name string, words ...string) int {
	for i, w := range words {
		if w == v.get(name) {
			return i
		}
	}
	v.fail("%s=%s: must be one of %s", name, v.get(name), strings.Join(words, ", "))
	return 0
}
