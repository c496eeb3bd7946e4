package survey

import "fmt"

// Group is one of the groups that a cell is in: By what, and which.
type Group struct{ By, Name string }

// Groups are those of the cell for a client that is informed or not.
func (c Cell) Groups(informed bool) []Group {
	told := "blind"
	if informed {
		told = "informed"
	}
	return []Group{
		{"limit", c.Scenario.Server.Limit.Kind.String()},
		{"told", told},
		{"calls", string(c.Mode)},
		{"rate", band(c.Rate, []float64{0.1, 3, 100}, []string{"below 6/min", "6/min to 3/s", "3/s to 100/s", "above 100/s"})},
		{"processes", band(float64(c.Processes), []float64{1.5, 10, 32}, []string{"1", "2 to 9", "10 to 31", "32 to 100"})},
		{"latency", band(c.Scenario.Network.Latency.Seconds(), []float64{0.01, 0.1, 1}, []string{"below 10 ms", "10 to 100 ms", "0.1 to 1 s", "above 1 s"})},
		{"changes", string(c.Trouble)},
	}
}

// AllGroups are the groups that there are, in the order of tables.
func AllGroups() (all []Group) {
	for _, k := range kinds {
		all = append(all, Group{"limit", k.String()})
	}
	add := func(by string, names ...string) {
		for _, name := range names {
			all = append(all, Group{by, name})
		}
	}
	add("told", "blind", "informed")
	add("calls", "closed", "open", "job")
	add("rate", "below 6/min", "6/min to 3/s", "3/s to 100/s", "above 100/s")
	add("processes", "1", "2 to 9", "10 to 31", "32 to 100")
	add("latency", "below 10 ms", "10 to 100 ms", "0.1 to 1 s", "above 1 s")
	add("changes", "none", "steps", "drift", "outage", "errors", "joins", "leaves")
	return all
}

func band(x float64, edges []float64, names []string) string {
	for i, e := range edges {
		if x < e {
			return names[i]
		}
	}
	return names[len(edges)]
}

// String is the group in a line.
func (g Group) String() string { return fmt.Sprintf("%s: %s", g.By, g.Name) }
