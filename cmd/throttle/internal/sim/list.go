package sim

import (
	"fmt"
	"io"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/sim"
)

// writeScenarios lists the built-in scenarios.
func writeScenarios(w io.Writer) error {
	var b strings.Builder
	width := 0
	for _, s := range sim.Builtin() {
		width = max(width, len(s.Name))
	}
	for _, s := range sim.Builtin() {
		fmt.Fprintf(&b, "%s  %s\n", table.Fill(s.Name, width), scenario.Gist(s))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writePolicies lists the policies with their settings and defaults.
func writePolicies(w io.Writer) error {
	var b strings.Builder
	for _, p := range sim.Policies() {
		fmt.Fprintf(&b, "%s: %s\n", p.Name, p.About)
		width := 0
		for _, s := range p.Settings {
			width = max(width, len(s.Name+"="+s.Default))
		}
		for _, s := range p.Settings {
			fmt.Fprintf(&b, "  %s  %s\n", table.Fill(s.Name+"="+s.Default, width), s.About)
		}
	}
	b.WriteString("\nPeers, which run when they are named:\n")
	for _, p := range policy.Peers() {
		fmt.Fprintf(&b, "%s: %s\n", p.Name, p.About)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
