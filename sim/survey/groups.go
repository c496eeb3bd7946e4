package survey

import "math"

// Group names one of the groups that a cell is in: By a property, and its value.
type Group struct{ By, Name string }

// String returns the group in a line.
func (g Group) String() string { return g.By + ": " + g.Name }

// band is the part of a scale below an edge.
type band struct {
	below float64
	name  string
}

var (
	rates     = [...]band{{0.1, "below 6/min"}, {3, "6/min to 3/s"}, {100, "3/s to 100/s"}, {math.Inf(1), "above 100/s"}}
	sizes     = [...]band{{2, "1"}, {10, "2 to 9"}, {32, "10 to 31"}, {math.Inf(1), "32 to 100"}}
	latencies = [...]band{{0.01, "below 10 ms"}, {0.1, "10 to 100 ms"}, {1, "0.1 to 1 s"}, {math.Inf(1), "above 1 s"}}
	modes     = [...]Mode{Closed, Open, Job}
	troubles  = [...]Trouble{None, Steps, Drift, Outage, Errors, Joins, Leaves}
	told      = [...]string{"blind", "informed"}
)

func bandOf(x float64, bands []band) string {
	for _, b := range bands {
		if x < b.below {
			return b.name
		}
	}
	return ""
}

// Groups returns the groups of the cell, for a client that is informed or not.
func (c Cell) Groups(informed bool) []Group {
	hears := told[0]
	if informed {
		hears = told[1]
	}
	return []Group{
		{"limit", c.Scenario.Server.Limit.Kind.String()},
		{"told", hears},
		{"calls", string(c.Mode)},
		{"rate", bandOf(c.Rate, rates[:])},
		{"processes", bandOf(float64(c.Processes), sizes[:])},
		{"latency", bandOf(c.Scenario.Network.Latency.Seconds(), latencies[:])},
		{"changes", string(c.Trouble)},
	}
}

// AllGroups returns all groups, in the order of tables.
func AllGroups() (all []Group) {
	for _, k := range kinds {
		all = append(all, Group{"limit", k.String()})
	}
	for _, name := range told {
		all = append(all, Group{"told", name})
	}
	for _, m := range modes {
		all = append(all, Group{"calls", string(m)})
	}
	for _, s := range []struct {
		by    string
		bands []band
	}{{"rate", rates[:]}, {"processes", sizes[:]}, {"latency", latencies[:]}} {
		for _, b := range s.bands {
			all = append(all, Group{s.by, b.name})
		}
	}
	for _, t := range troubles {
		all = append(all, Group{"changes", string(t)})
	}
	return all
}
