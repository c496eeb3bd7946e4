package sim

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
)

// writeScenarios lists the built-in scenarios, in lines as wide as a terminal; in a pipe
// each has one line.
func writeScenarios(w io.Writer) error {
	var b strings.Builder
	width := 0
	for _, s := range sim.Builtin() {
		width = max(width, len(s.Name))
	}
	for _, s := range sim.Builtin() {
		b.WriteString(entry(table.Fill(s.Name, width)+"  ", scenario.Gist(s), terminal.Width(w)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// entry is a line of a name and what it says of it, folded into columns if there are any
// and they leave room.
func entry(name, about string, columns int) string {
	indent := utf8.RuneCountInString(name)
	if room := columns - indent; room >= leastRoom {
		about = strings.ReplaceAll(words.Fold(about, room), "\n", "\n"+strings.Repeat(" ", indent))
	}
	return name + about + "\n"
}

// leastRoom is how many columns there must be to fold a text into them.
const leastRoom = 20

// writePolicies lists the policies with their settings and defaults, as writeScenarios.
func writePolicies(w io.Writer) error {
	var b strings.Builder
	columns := terminal.Width(w)
	for _, p := range sim.Policies() {
		b.WriteString(entry(p.Name+": ", p.About, columns))
		width := 0
		for _, s := range p.Settings {
			width = max(width, len(s.Name+"="+s.Default))
		}
		for _, s := range p.Settings {
			b.WriteString(entry("  "+table.Fill(s.Name+"="+s.Default, width)+"  ", s.About, columns))
		}
	}
	b.WriteString("\nPeers, which run when they are named:\n")
	for _, p := range policy.Peers() {
		b.WriteString(entry(p.Name+": ", p.About, columns))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
