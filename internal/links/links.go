// Package links follows symbolic links by their names.
package links

import (
	"cmp"
	"os"
	"path/filepath"
)

// most bounds the links of a name, as Linux does: they may lead in a circle.
const most = 40

// Follow returns the file that a name leads to by symbolic links, even if that is not there
// yet: a program that replaces it by renaming leaves the links as they are. The folder is
// named without links too, if it is there.
func Follow(path string) string {
	for range most {
		dir, file := filepath.Split(path)
		real, err := filepath.EvalSymlinks(cmp.Or(dir, "."))
		if err != nil {
			return path
		}
		path = filepath.Join(real, file)
		to, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(to) { // joined as text: what is before a '..' may be a link too
			to = real + string(filepath.Separator) + to
		}
		path = to
	}
	return path
}
