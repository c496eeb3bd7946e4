package scenario

import (
	"slices"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

func (y *yamlFile) server(s *sim.Scenario, top fields) {
	server := top.get("server")
	if !server.present() {
		y.fail(top.node, "no server; write server: {rate: 4/s, burst: 8}")
		return
	}
	f := y.mapping(server.node, "server", "limit", "rate", "burst", "start", "hints", "errors", "changes",
		"slots", "by", "counts", "queue", "limits", "gap", "scale", "nodes", "phase", "final", "plain", "down", "service")
	if y.err != nil {
		return
	}
	y.limits(&s.Server, f)
	if l := s.Server.Limit; f.get("start").present() && y.err == nil {
		s.Server.Start = pace.Some(f.get("start").integer(0, l.Burst))
	}
	s.Server.Errors = f.get("errors").share()
	s.Server.Final = f.get("final").share()
	s.Server.Plain = f.get("plain").yes()
	s.Server.Down = f.get("down").share()
	errors := s.Server.Errors + s.Server.Final
	for _, name := range []string{"final", "down"} {
		if x := f.get(name); x.present() && errors+s.Server.Down >= 1 {
			x.fail("must be below 1 together with errors")
		}
	}
	s.Server.Nodes = int(f.get("nodes").integer(1, maxNodes))
	s.Server.Phase = f.get("phase").duration(0, maxTime)
	s.Server.Service = y.service(f.get("service"))
	s.Server.Scale = y.scale(f.get("scale"), s.Server.Limit.Kind)
	y.hints(&s.Server, f.get("hints"))
	s.Server.Changes = y.changes(f.get("changes"), s.Server.Limit.Kind, s.Duration, errors)
	if s.Server.Limit.Kind == limit.CalendarWindow {
		y.without(f, "its rates are those of a second, and a calendar window is a minute or longer; write changes", "scale")
	}
	dry := func(c sim.Change) bool { return c.Count == 0 }
	if zero := s.Server.Limit.Count == 0 || slices.ContainsFunc(s.Server.Changes, dry); zero && s.Duration == 0 && f.get("rate").present() {
		y.fail(f.get("rate").key, "a rate of 0, and no duration; write duration: 30m")
	}
}

// without refuses fields that have no meaning here.
func (y *yamlFile) without(f fields, why string, names ...string) {
	for _, name := range names {
		if x := f.get(name); x.present() {
			y.fail(x.key, "%s: %s", name, why)
		}
	}
}

// changes are further rates of a limit of that kind, whose errors are a share of what it admits.
func (y *yamlFile) changes(f field, kind limit.Kind, end time.Duration, errors float64) (changes []sim.Change) {
	last := time.Duration(-1)
	for _, n := range f.sequence(maxChanges, "[{at: 10m, rate: 8/s}]") {
		c := y.mapping(n, "change", "at", "rate", "retry_after", "down")
		at, rate := c.get("at"), c.get("rate")
		if !at.present() || !rate.present() {
			y.fail(n, "change: needs a time and a rate, as in {at: 10m, rate: 8/s}")
		}
		if y.err != nil {
			return nil
		}
		var change sim.Change
		change.At = at.duration(0, maxTime)
		change.Count, change.Period = rate.rateOf(kind)
		change.RetryAfter = c.get("retry_after").duration(time.Second, maxTime)
		change.Down = c.get("down").share()
		switch {
		case change.Down+errors >= 1:
			c.get("down").fail("must be below 1 together with errors")
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

// scale is a capacity of a limit of that kind, which follows the load.
func (y *yamlFile) scale(f field, kind limit.Kind) (a sim.AutoScale) {
	if !f.present() {
		return a
	}
	g := y.mapping(f.node, "scale", "every", "delay", "target", "min", "max")
	for _, name := range []string{"every", "target", "min", "max"} {
		if !g.get(name).present() {
			y.fail(f.node, "scale: no %s; write it as in {every: 1m, delay: 30s, target: 0.7, min: 100, max: 800}", name)
		}
	}
	if y.err != nil {
		return a
	}
	a.Every, a.Delay = g.get("every").duration(time.Millisecond, maxTime), g.get("delay").duration(0, maxTime)
	a.Target = g.get("target").number(0.01, 100)
	a.Min, a.Max = g.get("min").integer(1, maxCount), g.get("max").integer(1, maxCount)
	switch most := g.get("max"); {
	case a.Max < a.Min:
		most.fail("must not be below min")
	case kind == limit.SlidingLog && a.Max > limit.MaxLog:
		most.fail("is more than the %d that a sliding log keeps at most", limit.MaxLog)
	}
	return a
}

// service is what the server does with what it admits.
func (y *yamlFile) service(f field) (w sim.Service) {
	if !f.present() {
		return w
	}
	g := y.mapping(f.node, "service", "time", "spread", "tail", "at_once", "queue", "each", "batch", "pause", "slow", "speeds")
	if !g.get("time").present() {
		y.fail(f.node, "service: no time; write it as in {time: 200ms, at_once: 10, queue: 50}")
		return w
	}
	w.Time = g.get("time").duration(time.Microsecond, time.Hour)
	w.Spread, w.Tail = g.get("spread").share(), g.get("tail").number(0, maxTail)
	w.AtOnce, w.Queue = int(g.get("at_once").integer(1, maxWorkers)), int(g.get("queue").integer(0, maxWorkers))
	if queue := g.get("queue"); w.Queue > 0 && w.AtOnce == 0 {
		queue.fail("needs an at_once: how many are worked on at a time")
	}
	w.Each, w.Batch = g.get("each").duration(0, time.Hour), int(g.get("batch").integer(1, maxWorkers))
	if batch := g.get("batch"); w.Batch > 1 && w.AtOnce == 0 {
		batch.fail("needs an at_once: how many batches are worked on at a time")
	}
	y.troubles(g.get("pause"), g.get("slow"), g.get("speeds"), &w)
	return w
}

// troubles are what makes a service slower for a time, or in a part of it.
func (y *yamlFile) troubles(pause, slow, speeds field, w *sim.Service) {
	if pause.present() {
		p := y.mapping(pause.node, "pause", "every", "length")
		w.Pause = sim.Pause{Every: p.get("every").duration(time.Millisecond, time.Hour), Length: p.get("length").duration(0, time.Hour)}
		if w.Pause.Length >= w.Pause.Every {
			y.fail(pause.node, "pause: its length must be shorter than every, as in {every: 3s, length: 200ms}")
		}
	}
	if slow.present() {
		p := y.mapping(slow.node, "slow", "share", "times")
		w.Slow = sim.Slow{Share: p.get("share").share(), Times: p.get("times").number(1, 1000)}
		if w.AtOnce < 2 || w.Slow.Times < 1 {
			y.fail(slow.node, "slow: needs times, and a service of at_once 2 or more, as in {share: 0.25, times: 10}")
		}
	}
	for _, n := range speeds.sequence(maxChanges, "[{at: 5s, times: 10}]") {
		p := y.mapping(n, "speeds", "at", "times")
		s := sim.Speed{At: p.get("at").duration(0, 366*24*time.Hour), Times: p.get("times").number(0.001, 1000)}
		if k := len(w.Speeds); s.Times == 0 || k > 0 && s.At <= w.Speeds[k-1].At {
			y.fail(n, "speeds: needs times, and an at after the one before, as in {at: 5s, times: 10}")
		}
		w.Speeds = append(w.Speeds, s)
	}
}

// gap is a server that serves a request when the one before is long enough ago.
func (y *yamlFile) gap(f field) (gaps []sim.Gap) {
	for _, n := range f.sequence(maxChanges, "[{least: 290ms}, {from: 200, least: 60ms}]") {
		g := y.mapping(n, "gap", "from", "least")
		if !g.get("least").present() {
			y.fail(n, "gap: needs a least distance, as in {from: 200, least: 60ms}")
		}
		if y.err != nil {
			return nil
		}
		from := max(g.get("from").integer(1, maxCount), 1)
		if len(gaps) > 0 && from <= gaps[len(gaps)-1].From {
			y.fail(n, "gap: from must be later than that of the gap before it")
		}
		gaps = append(gaps, sim.Gap{From: from, Least: g.get("least").duration(time.Microsecond, time.Hour)})
	}
	if len(gaps) == 0 && y.err == nil {
		f.fail("must have at least one, as in [{least: 290ms}, {from: 200, least: 60ms}]")
	}
	return gaps
}
