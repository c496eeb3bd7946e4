package survey

import "math/rand/v2"

// Hints lists the names of the hints that Tell may add.
var Hints = [...]string{"remaining", "retry-after", "reset", "policy"}

// Tell returns the cell with one more true hint, drawn among those that it does
// not give, and its name; ok is false if it gives them all. Calls that arrive by
// themselves arrive at the same times.
func (c Cell) Tell() (told Cell, hint string, ok bool) {
	h := &c.Scenario.Server.Hints // of the copy
	hints := [...]*bool{&h.Remaining, &h.RetryAfter, &h.Reset, &h.Policy}
	var absent []int
	for i, has := range hints {
		if !*has {
			absent = append(absent, i)
		}
	}
	if len(absent) == 0 {
		return c, "", false
	}
	r := rand.New(rand.NewPCG(c.Seed, ^uint64(c.Number)))
	i := absent[r.IntN(len(absent))]
	*hints[i] = true
	c.Scenario.Name += "-told"
	return c, Hints[i], true
}
