package config

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/links"
)

// A use is a file of the system, and what it is for: the path of a value, or the name
// of a file.
type use struct{ of, file string }

// checkFiles refuses a file that the program would write over another one: a snapshot
// over the rules, say.
func (f *files) checkFiles(all []Named, c *File) {
	before := f.reads(all, c)
	for _, w := range c.Writes() {
		for _, other := range before {
			if w.File != "" && other.file != "" && sameFile(w.File, other.file) {
				f.refuse(w.Path, "would replace %s; name another file", other.of)
			}
		}
		before = append(before, use{"the file of " + w.Path, w.File})
	}
}

// A Write is a file that the program writes: Path is that of the value that names it.
type Write struct{ Path, File string }

// Writes are the files that the program writes. File is empty where there is none.
func (c *File) Writes() (all []Write) {
	if s := c.Store; s != nil {
		all = append(all, Write{"store.snapshot", string(s.Snapshot)})
	}
	if r := c.Rules; r != nil {
		all = append(all, Write{"rules.keep", string(r.Keep)}, Write{"rules.overlay_keep", string(r.OverlayKeep)})
		if r.XDS != nil {
			all = append(all, Write{"rules.xds.keep", string(r.XDS.Keep)})
		}
		if r.Overlay != InStore {
			all = append(all, Write{"rules.overlay", string(r.Overlay)})
		}
	}
	return all
}

// reads are the files that the program reads.
func (f *files) reads(all []Named, c *File) (list []use) {
	for _, one := range all {
		if one.Name != "-" {
			list = append(list, use{words.OneLine(one.Name), one.Name})
		}
	}
	for _, path := range f.secrets {
		list = append(list, use{"a file of ${file:}", path})
	}
	add := func(path string, file Path) { list = append(list, use{"the file of " + path, string(file)}) }
	if c.Rules != nil {
		add("rules.file", c.Rules.File)
		if x := c.Rules.XDS; x != nil {
			x.TLS.reads("rules.xds.tls", add)
		}
	}
	if c.Admin != nil {
		c.Admin.Listen.TLS.reads("admin.listen.tls", add)
	}
	if c.Gateway == nil {
		return list
	}
	for i, s := range c.Gateway.Listen {
		s.TLS.reads(fmt.Sprintf("gateway.listen[%d].tls", i), add)
	}
	for i, r := range c.Gateway.Routes {
		path := fmt.Sprintf("gateway.routes[%d].", i)
		r.TLS.reads(path+"tls", add)
		if r.Degraded != nil {
			add(path+"degraded.file", r.Degraded.File)
		}
	}
	return list
}

func (t *TLS) reads(path string, add func(path string, file Path)) {
	if t != nil {
		add(path, t.Cert)
		add(path, t.Key)
		add(path, t.ClientCA)
	}
}

func (t *UpstreamTLS) reads(path string, add func(path string, file Path)) {
	if t != nil {
		(&TLS{Cert: t.Cert, Key: t.Key, ClientCA: t.CA}).reads(path, add)
	}
}

// sameFile reports whether two names are of one file, which need not be there.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if other, errOther := os.Stat(b); err == nil && errOther == nil {
		return os.SameFile(one, other)
	}
	return fromRoot(a) == fromRoot(b)
}

// fromRoot is the file that a name leads to, from the root.
func fromRoot(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	return links.Follow(name)
}
