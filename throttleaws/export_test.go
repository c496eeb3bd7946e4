package throttleaws

// Remembered is how many scopes g remembers.
func Remembered(g *Gates) int { return g.scopes.Len() }
