// Package scenario finds scenarios by name, reads them from YAML files, and says
// in words what they are.
package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
)

// maxScenarios is how many one command runs.
const maxScenarios = 100

// dash in place of a file means standard input.
const dash = "-"

// Read finds built-in scenarios by name and reads others from files, where - is
// stdin; no names mean heroku.
func Read(names []string, stdin io.Reader) (scenarios []sim.Scenario, err error) {
	if len(names) == 0 {
		names = []string{"heroku"}
	}
	if len(names) > maxScenarios {
		return nil, usage.Errorf("%d scenarios; at most %d", len(names), maxScenarios)
	}
	for i, name := range names {
		if name == dash && slices.Contains(names[:i], dash) {
			return nil, usage.Error("- can be read once; write the name of a file")
		}
		s, ok := sim.Find(name)
		if !ok {
			if s, err = otherScenario(name, stdin); err != nil {
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
		if _, builtin := sim.Find(name); !builtin && name != dash {
			files = append(files, name)
		}
	}
	return files
}

// otherScenario reads a scenario that is not built in.
func otherScenario(name string, stdin io.Reader) (sim.Scenario, error) {
	if name == dash {
		data, err := readAll(stdin)
		if err != nil {
			return sim.Scenario{}, usage.Errorf("scenario: standard input: %v", err)
		}
		return Parse(dash, data)
	}
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) || name == "" {
		var known []string
		for _, s := range sim.Builtin() {
			known = append(known, s.Name)
		}
		return sim.Scenario{}, usage.Errorf("scenario %s is not known and there is no such file; %s", words.Quote(name), words.Meant(name, known))
	}
	return scenarioFile(name)
}

// readFile reads a file that is not too long.
func readFile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, usage.Errorf("scenario file: %s is a directory; name a file", words.Quote(path))
	}
	f, err := infile.Open(path)
	if err != nil {
		return nil, usage.Error(words.OneLine(fmt.Sprintf("scenario file: %v", err)))
	}
	defer f.Close() // only read from
	data, err := readAll(f)
	if err != nil {
		return nil, usage.Error(words.OneLine(fmt.Sprintf("scenario file: %v", err)))
	}
	return data, nil
}

// readAll reads no more than is needed to say that it is too long.
func readAll(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, maxFile+1)) }
