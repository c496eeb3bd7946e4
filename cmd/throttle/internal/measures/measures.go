// Package measures finds measures in sim.Measures by their names.
package measures

import "github.com/throttle-go/throttle/sim"

// At returns the place of a measure in sim.Measures, or -1 if there is none.
func At(name string) int {
	for i, m := range sim.Measures {
		if m.Name == name {
			return i
		}
	}
	return -1
}

// Names returns the names of all measures, in the order of sim.Measures.
func Names() (names []string) {
	for _, m := range sim.Measures {
		names = append(names, m.Name)
	}
	return names
}
