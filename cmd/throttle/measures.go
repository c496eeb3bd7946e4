package main

import "github.com/throttle-go/throttle/sim"

// measureAt is the place of a measure in sim.Measures, -1 if there is none.
func measureAt(name string) int {
	for i, m := range sim.Measures {
		if m.Name == name {
			return i
		}
	}
	return -1
}

func measureNames() (names []string) {
	for _, m := range sim.Measures {
		names = append(names, m.Name)
	}
	return names
}
