//go:build race

package egress

// raceMemory is how many times more memory the race detector takes.
const raceMemory = 7
