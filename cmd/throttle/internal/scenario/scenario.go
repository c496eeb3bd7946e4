// Package scenario finds scenarios by name, reads them from YAML files, and says
// in words what they are.
package scenario

import (
	"errors"
	"os"
	"slices"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
)

// maxScenarios is how many one command runs.
const maxScenarios = 100

// Read finds built-in scenarios by name and reads others from files; no names
// mean heroku.
func Read(names []string) (scenarios []sim.Scenario, err error) {
	if len(names) == 0 {
		names = []string{"heroku"}
	}
	if len(names) > maxScenarios {
		return nil, usage.Errorf("%d scenarios; at most %d", len(names), maxScenarios)
	}
	for _, name := range names {
		s, ok := sim.Find(name)
		if !ok {
			if s, err = otherScenario(name); err != nil {
				return nil, err
			}
		}
		if slices.ContainsFunc(scenarios, func(t sim.Scenario) bool { return t.Name == s.Name }) {
			return nil, usage.Errorf("two scenarios are called %s; name one, or give another name", s.Name)
		}
		scenarios = append(scenarios, s)
	}
	return scenarios, nil
}

// Files are those of names that Read takes for files.
func Files(names []string) (files []string) {
	for _, name := range names {
		if _, builtin := sim.Find(name); !builtin {
			files = append(files, name)
		}
	}
	return files
}

// otherScenario reads a scenario that is not built in.
func otherScenario(name string) (sim.Scenario, error) {
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) || name == "" {
		var known []string
		for _, s := range sim.Builtin() {
			known = append(known, s.Name)
		}
		return sim.Scenario{}, usage.Errorf("scenario %s is not known and there is no such file; %s", words.Quote(name), words.Meant(name, known))
	}
	return scenarioFile(name)
}
