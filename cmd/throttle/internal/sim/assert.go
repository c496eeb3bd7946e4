package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// assert is a threshold for the median of a measure.
type assert struct {
	text     string
	scenario string // "": every one
	policy   sim.Policy
	measure  int // in sim.Measures
	operator string
	bound    float64
}

var assertForm = regexp.MustCompile(`^\s*(?:([\w.-]+)/)?([\w-]+\s*(?:\([^()]*\))?)\.(\w+)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*$`)

// parseAssert reads [SCENARIO/]POLICY.MEASURE<NUMBER, which must be about what
// is going to be run: plan says which policies in a scenario.
func parseAssert(text string, scenarios []sim.Scenario, plan func(sim.Scenario) ([]sim.Policy, int)) (assert, error) {
	bad := func(format string, a ...any) (assert, error) {
		return assert{}, usage.Error(fmt.Sprintf("-assert %s: ", words.Quote(text)) + fmt.Sprintf(format, a...))
	}
	part := assertForm.FindStringSubmatch(text)
	if part == nil {
		return bad("write [SCENARIO/]POLICY.MEASURE, one of < <= > >= == != and a number, as in adaptive.retry_rate<0.02")
	}
	a := assert{text: strings.TrimSpace(text), scenario: part[1], operator: part[4]}
	named := func(s sim.Scenario) bool { return s.Name == a.scenario }
	if a.scenario != "" && !slices.ContainsFunc(scenarios, named) {
		return bad("scenario %s is not among those to run; name it too", a.scenario)
	}
	var err error
	if a.policy, err = policy.Parse(part[2]); err != nil {
		return bad("%v", err)
	}
	same := func(p sim.Policy) bool { return policy.Same(p, a.policy) }
	among := func(s sim.Scenario) bool {
		run, _ := plan(s)
		return (a.scenario == "" || named(s)) && slices.ContainsFunc(run, same)
	}
	if !slices.ContainsFunc(scenarios, among) {
		return bad("policy %s is not among those to run; add it to -policy", a.policy.Name)
	}
	names := measures.Names()
	if a.measure = slices.Index(names, part[3]); a.measure < 0 {
		return bad("measure %s is not known; %s", part[3], words.Meant(part[3], names))
	}
	if a.bound, err = strconv.ParseFloat(part[5], 64); err != nil || a.bound-a.bound != 0 {
		return bad("%s is not a number, as in 0.02", words.Quote(part[5]))
	}
	return a, nil
}

// holds reports whether a figure keeps to the threshold. One that is absent
// does not.
func (a assert) holds(s pace.Opt[sim.Stat]) bool {
	if !s.OK {
		return false
	}
	switch x := s.V.Median; a.operator {
	case "<":
		return x < a.bound
	case "<=":
		return x <= a.bound
	case ">":
		return x > a.bound
	case ">=":
		return x >= a.bound
	case "==":
		return x == a.bound
	}
	return s.V.Median != a.bound
}

// checkAsserts returns an assertion that names all that do not hold.
func checkAsserts(asserts []assert, results []batch.Result) error {
	var broken []string
	for _, a := range asserts {
		for _, r := range results {
			if a.scenario != "" && a.scenario != r.Scenario.Name {
				continue
			}
			for i, row := range r.Rows {
				if s := row.Summary.Stats[a.measure]; policy.Same(r.Policies[i], a.policy) && !a.holds(s) {
					broken = append(broken, fmt.Sprintf("%s does not hold in %s: %s", a.text, r.Scenario.Name, measured(s)))
				}
			}
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return exit.Assertion("assert " + strings.Join(broken, "; "))
}

// measured says what a measure is.
func measured(s pace.Opt[sim.Stat]) string {
	if !s.OK {
		return "it is null, as the measure does not apply there"
	}
	return "the median is " + strconv.FormatFloat(s.V.Median, 'g', 6, 64)
}
