package find

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
)

// How files of rules and scenarios begin.
const (
	rulesBegin     = "# The limit of all requests together to "
	scenarioBegins = "# A service with the curve that 'throttle find' measured of "
)

// recommended is the rule to set.
type recommended struct {
	text string // in words
	line string // a command
	file string // a file of rules
}

// rule is the recommended rule, if there is one.
func (f *findings) rule() (r recommended, ok bool) {
	rule := f.Rule(f.headRoom)
	limited := !rule.Limit.Unlimited()
	if !limited && rule.Concurrency <= 0 {
		return r, false
	}
	var said, fields, line []string
	if limited {
		text := rule.Limit.String()
		said = append(said, text)
		fields = append(fields, fmt.Sprintf("    limits: %q\n", text))
		line = append(line, fmt.Sprintf("-limit '%s'", text))
	}
	if rule.Concurrency > 0 {
		said = append(said, fmt.Sprintf("at most %d in flight", rule.Concurrency))
		fields = append(fields, fmt.Sprintf("    in_flight: %d\n", rule.Concurrency))
	}
	r.text = fmt.Sprintf("%s; %s below the knee", strings.Join(said, ", "), percent(f.headRoom))
	r.line = fmt.Sprintf("throttle gateway -to %s %s", f.origin(), strings.Join(line, " "))
	if !limited {
		r.line = fmt.Sprintf("throttle gateway -to %s -shed", f.origin())
	}
	r.file = fmt.Sprintf(rulesBegin+"%s, by 'throttle find':\n# %s: %s; %s below it.\nrules:\n  - name: knee\n%s",
		f.name(), f.objective(), f.kneeInWords(), percent(f.headRoom), strings.Join(fields, ""))
	return r, true
}

// origin is where a gateway sends requests to.
func (f *findings) origin() string {
	if f.command != nil {
		return "URL"
	}
	return f.request.URL.Scheme + "://" + f.request.URL.Host
}

func (f *findings) writeRules(w io.Writer) error {
	rule, ok := f.rule()
	if !ok {
		return exit.Assertion("no limit can be recommended, so none is written: " + f.kneeInWords())
	}
	_, err := io.WriteString(w, rule.file)
	return err
}

// writeScenario writes a service with the curve that was measured, under the load
// of the knee.
func (f *findings) writeScenario(w io.Writer) error {
	s, ok := f.Scenario(f.Knee.At)
	if !ok {
		return exit.Assertion("no service of the simulator has this curve, so no scenario is written")
	}
	if _, err := fmt.Fprintf(w, scenarioBegins+"%s.\n", f.name()); err != nil {
		return err
	}
	return scenario.Write(w, s)
}

// figure is a float64 that JSON can hold: null if it is no number.
func figure(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
