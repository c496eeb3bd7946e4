package measures

import "github.com/throttle-go/throttle/sim"

// At is the place of a measure in sim.Measures, -1 if there is none.
func At(name string) int {
	for i, m := range sim.Measures {
		if m.Name == name {
			return i
		}
	}
	return -1
}

func Names() (names []string) {
	for _, m := range sim.Measures {
		names = append(names, m.Name)
	}
	return names
}
