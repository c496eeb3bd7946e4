// Package version is the command 'throttle version': the version of the program,
// and the modules that it links with their licences.
package version

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const help = `throttle version prints the version of the program.

Usage: throttle version [flags]

It prints 'throttle', the version of its module, that of Go, and the platform.
In a program that was built from a checkout the version is that of the commit,
or (devel) if Go recorded none.

Flags:
  -licenses  list what the program links: each module and its version, the
             standard library and the parts in other languages, with the
             licences by their SPDX names
  -full      with -licenses: the texts of the licences too

Examples:
  throttle version
  throttle version -licenses
  throttle version -licenses -full > LICENSES
`

// Run prints the version.
func Run(_ context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	list := flags.Bool("licenses", false, "")
	full := flags.Bool("full", false, "")
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case len(names) > 0:
		return usage.Errorf("version: %s: takes flags only; write 'throttle version'", words.Quote(names[0]))
	case *full && !*list:
		return usage.Error("version: -full is for -licenses; write 'throttle version -licenses -full'")
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return exit.Failf("version: this program was built without modules, so it does not know its version")
	}
	if !*list {
		_, err := fmt.Fprintf(stdout, "throttle %s %s %s/%s\n", versionOf(&info.Main), info.GoVersion, runtime.GOOS, runtime.GOARCH)
		return err
	}
	return write(stdout, linked(info, parse(licenses)), *full)
}

// write lists the parts, and fails if one is of no known licence.
func write(w io.Writer, parts []part, full bool) error {
	var unknown []string
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range parts {
		fmt.Fprintf(columns, "%s\t%s\t%s\n", p.name, p.version, p.license)
		if p.license == none {
			unknown = append(unknown, p.name)
		}
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	for _, p := range parts {
		if !full || p.license == none {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n==== %s %s %s\n\n%s", p.name, p.version, p.license, p.text); err != nil {
			return err
		}
	}
	if len(unknown) > 0 {
		return exit.Failf("version: no licence is known of %s; run 'make licenses' and build again", strings.Join(unknown, ", "))
	}
	return nil
}
