package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
)

// arrivals are how calls come up: a rate, a list of rates in steps, or a mapping
// of either, or of a trace.
func (y *yamlFile) arrivals(g *sim.Group, f field) {
	if !f.present() {
		return
	}
	if _, ok := f.scalar(); ok {
		g.Arrivals = f.arrivalRate(1e-9)
		return
	}
	if _, ok := f.node.(*ast.SequenceNode); ok {
		g.Steps = y.steps(f)
		return
	}
	m := y.mapping(f.node, "arrivals", "rate", "steps", "repeat", "trace", "batch")
	rate, steps, trace := m.get("rate"), m.get("steps"), m.get("trace")
	there := 0
	for _, x := range []field{rate, steps, trace} {
		if x.present() {
			there++
		}
	}
	if there != 1 {
		y.fail(f.node, "arrivals: needs one of rate, steps and trace, as in {rate: 3/s, batch: 10}")
		return
	}
	if rate.present() {
		g.Arrivals = rate.arrivalRate(1e-9)
	}
	g.Steps = y.steps(steps)
	if repeat := m.get("repeat"); repeat.present() {
		g.Repeat = repeat.duration(time.Millisecond, maxTime)
		switch n := len(g.Steps); {
		case n == 0:
			repeat.fail("needs steps to repeat, as in {steps: [{rate: 2/s}, {at: 8h, rate: 8/s}], repeat: 24h}")
		case g.Steps[n-1].At >= g.Repeat:
			repeat.fail("must be longer than until the last step at %s", words.Short(g.Steps[n-1].At))
		}
	}
	g.Batch = int(m.get("batch").integer(1, 10_000))
	if trace.present() {
		g.Trace = y.trace(trace)
	}
}

// arrivalRate is the field as calls a second, at least so many.
func (f field) arrivalRate(least float64) float64 {
	count, period := f.rate()
	x := float64(count) / max(period.Seconds(), 1e-3)
	if x < least || x > 1e6 {
		f.fail("must be above 0 and at most 1000000/s")
	}
	return x
}

// steps are rates that change.
func (y *yamlFile) steps(f field) (all []sim.Arrive) {
	list := f.sequence(maxChanges, "[{rate: 2/s}, {at: 10m, rate: 8/s}]")
	if f.present() && len(list) == 0 {
		f.fail("must have at least one step, as in [{rate: 2/s}, {at: 10m, rate: 8/s}]")
	}
	for _, n := range list {
		c := y.mapping(n, "arrivals", "at", "rate")
		if !c.get("rate").present() || len(all) > 0 && !c.get("at").present() {
			y.fail(n, "arrivals: a step needs a time and a rate, as in {at: 10m, rate: 8/s}")
		}
		if y.err != nil {
			return nil
		}
		a := sim.Arrive{At: c.get("at").duration(0, maxTime), Rate: c.get("rate").arrivalRate(0)}
		switch {
		case len(all) == 0 && a.At > 0:
			c.get("at").fail("the first step must be at 0s")
		case len(all) > 0 && a.At <= all[len(all)-1].At:
			c.get("at").fail("must be later than the step before it")
		}
		all = append(all, a)
	}
	return all
}

// trace is when calls came up, from a file beside this one: a time a line, in
// seconds or as a duration, rising; an empty line and one that begins with # say
// nothing.
func (y *yamlFile) trace(f field) (times []time.Duration) {
	name, ok := f.scalar()
	if !ok || name == "" {
		f.fail("must be the name of a file of times, one a line")
		return nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(y.path), name)
	}
	data, err := readRegular(name, maxTraceFile)
	if err != nil {
		y.fail(f.node, "trace: %v", err)
		return nil
	}
	for i, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at, err := traceTime(line)
		switch {
		case err != nil:
			y.fail(f.node, "trace: %s, line %d: %s is not a time from the start; write seconds, as in 12.5", words.OneLine(name), i+1, words.Quote(line))
		case at < 0 || at > maxTime:
			y.fail(f.node, "trace: %s, line %d: %s is not from 0s to %s", words.OneLine(name), i+1, words.Quote(line), words.Short(maxTime))
		case len(times) > 0 && at < times[len(times)-1]:
			y.fail(f.node, "trace: %s, line %d: earlier than the line before; sort the file", words.OneLine(name), i+1)
		case len(times) == maxTrace:
			y.fail(f.node, "trace: %s: more than %d calls", words.OneLine(name), maxTrace)
		}
		if y.err != nil {
			return nil
		}
		times = append(times, at)
	}
	if len(times) == 0 {
		y.fail(f.node, "trace: %s has no times", words.OneLine(name))
	}
	return times
}

// traceTime is a time of a trace, in seconds or as a duration, beyond maxTime if it is too late.
func traceTime(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(seconds) && !math.IsInf(seconds, 0) {
		most := maxTime.Seconds() + 1
		return time.Duration(min(max(seconds, -1), most) * 1e9), nil
	}
	return time.ParseDuration(text)
}

// Bounds of a trace.
const (
	maxTrace     = 1_000_000
	maxTraceFile = 32 << 20
)

// readRegular reads a file that is not longer than most, and no device.
func readRegular(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file; it is looked for beside the scenario", name)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a file; name one of times, one a line", name)
	case info.Size() > most:
		return nil, fmt.Errorf("%s: longer than %d MiB", name, most>>20)
	}
	return os.ReadFile(name)
}
