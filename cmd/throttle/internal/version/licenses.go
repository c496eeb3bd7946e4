package version

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

// licenses holds the texts of the licences of what the program may link on any
// platform. tools/licenses writes it; each text comes after a line
//
//	==== NAME VERSION LICENCE
//
// VERSION is - for a Go module and the standard library, of which the program
// itself knows the version.
//
//go:embed licenses.txt
var licenses string

// none is in place of the licence of a part that licenses.txt does not have.
const none = "UNKNOWN"

// A part is something that is linked: a module, the standard library, or a
// script that is embedded.
type part struct {
	name, version, license, text string
}

// parse reads the form of licenses.txt.
func parse(text string) (parts []part) {
	for line := range strings.Lines(text) {
		head, is := strings.CutPrefix(line, "==== ")
		if words := strings.Fields(head); is && len(words) == 3 {
			parts = append(parts, part{name: words[0], version: words[1], license: words[2]})
		} else if len(parts) > 0 {
			parts[len(parts)-1].text += line
		}
	}
	return parts
}

// linked returns the parts of a program: its module, the modules that it links,
// the standard library, and what known has with a version of its own.
func linked(info *debug.BuildInfo, known []part) (parts []part) {
	byName := map[string]part{}
	for _, p := range known {
		byName[p.name] = p
	}
	add := func(name, version string) {
		p, ok := byName[name]
		if !ok {
			p.license = none
		}
		p.name, p.version = name, version
		parts = append(parts, p)
	}
	add(info.Main.Path, versionOf(&info.Main))
	for _, m := range info.Deps {
		add(m.Path, versionOf(m))
	}
	add("std", info.GoVersion)
	for _, p := range known {
		if p.version != "-" {
			parts = append(parts, p)
		}
	}
	return parts
}

// versionOf is the version of the code of a module: that of its replacement, if
// it has one, and (devel) where it comes from a folder.
func versionOf(m *debug.Module) string {
	if m.Replace != nil {
		m = m.Replace
	}
	if m.Version == "" {
		return "(devel)"
	}
	return m.Version
}
