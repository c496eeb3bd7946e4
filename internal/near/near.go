// Package near finds the name that was likely meant by one that is not known.
package near

// Of returns the name of known that text is likely meant to be, or "".
func Of(text string, known []string) string {
	best, least := "", min(len(text)/3+1, far) // a third of the letters may be wrong
	for _, name := range known {
		if d := distance(text, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// far is the distance of texts longer than that many bytes from everything.
const far = 64

// distance is how many letters must be put in, left out, replaced or swapped with
// the next one to make b of a. Long texts are far from everything.
func distance(a, b string) int {
	if len(a) > far || len(b) > far {
		return far
	}
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			now[j] = min(last[j]+1, now[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
