// Package check is the command 'throttle check': it checks the files of 'throttle
// serve', and says what they would decide about a request.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/dryrun"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/serve"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

const help = `throttle check checks the files of 'throttle serve', or a file of rules.

Usage: throttle check [flags] FILE...

A mistake is reported with its line and column, and the exit code is 2. The file
of rules that a file names is checked too; its URL is not asked. With -request it
says which rules apply to a request, and why others do not, by which key, what
would be left of each limit, and what would make the request pass; the exit code
is 4 if it would be refused. Nothing is charged. FILE is - for standard input.

Flags:
  -request 'METHOD PATH'
                 a request; PATH may have https://HOST before it
  -H 'Name: value'
                 a field of its header; several are added
  -address ADDR  the address that it comes from, default 127.0.0.1
  -client NAME   its authenticated identity, default none
  -descriptor KEY=VALUE,KEY=VALUE, -domain NAME
                 a descriptor as Envoy sends it, in place of -request
  -value NAME=VALUE, -cost NAME=N
                 what the program knows of it, for rules that ask
  -after N       decide as if N such requests had been made just before (at most
                 100,000), default 0
  -store         look at what is left in the store of the file, rather than in an
                 empty one
  -json          print JSON

Examples:
  throttle check gateway.yaml
  throttle check gateway.yaml -request 'GET /api/x' -H 'X-Api-Key: 1' -address 192.0.2.7
  throttle check rules.yaml -request 'POST /login' -after 5
  throttle check rules.yaml -domain edge -descriptor remote_address=192.0.2.7,path=/api
`

const mostAfter = 100_000

// options is what the command line asks for.
type options struct {
	request request
	names   []string
	after   int
	store   bool
	json    bool
	within  time.Duration // the store is to answer
}

// found is what the files say.
type found struct {
	names    []string
	file     *config.File    // nil: a file of rules
	rules    *rules.Compiled // nil: none
	rulesOf  string          // the name of their file
	decision *dryrun.Report
	warnings []string
	parted   bool // its store has keys in different slots
}

// Run checks files.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := optionsOf(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	f, err := o.check(ctx, stdin)
	if err == nil && o.request.given() {
		f.decision, err = o.decide(ctx, f)
	}
	if o.json {
		if e := writeJSON(stdout, f, err); e != nil {
			return e
		}
	} else if err == nil {
		for _, text := range f.warnings {
			if _, e := fmt.Fprintln(stderr, "warning: "+words.OneLine(text)); e != nil {
				return e
			}
		}
		if e := f.write(stdout); e != nil {
			return e
		}
	}
	switch flaw := (*tree.Error)(nil); {
	case errors.As(err, &flaw):
		return usage.Error(flaw.Error())
	case err != nil:
		return err
	case f.decision != nil && !f.decision.OK:
		return exit.Denied{}
	}
	return nil
}

func optionsOf(args []string) (*options, error) {
	o := &options{within: 5 * time.Second, request: request{header: http.Header{}, values: map[string]string{}, costs: map[string]int64{}}}
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.StringVar(&o.request.text, "request", "", "")
	flags.Func("H", "", o.request.addHeader)
	flags.StringVar(&o.request.address, "address", "", "")
	flags.StringVar(&o.request.client, "client", "", "")
	flags.StringVar(&o.request.domain, "domain", "", "")
	flags.StringVar(&o.request.descriptor, "descriptor", "", "")
	flags.Func("value", "", o.request.addValue)
	flags.Func("cost", "", o.request.addCost)
	flags.IntVar(&o.after, "after", 0, "")
	flags.BoolVar(&o.store, "store", false, "")
	flags.BoolVar(&o.json, "json", false, "")
	var err error
	if o.names, err = usage.ParseFlags(flags, args); err != nil {
		return nil, err
	}
	given := ""
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "json" && f.Name != "request" && f.Name != "descriptor" && f.Name != "domain" {
			given = f.Name
		}
	})
	switch {
	case len(o.names) == 0:
		return nil, usage.Error("check: no file; write 'throttle check FILE'")
	case o.store && slices.ContainsFunc(o.names, func(name string) bool { return strings.Contains(name, "://") }):
		return nil, usage.Error("check: -store takes no URL: it looks at the store that the file names")
	case o.request.text != "" && o.request.described():
		return nil, usage.Error("check: -request and -descriptor: write one of them")
	case o.request.misplaced() != "":
		return nil, usage.Error("check: " + o.request.misplaced())
	case !o.request.given() && given != "" && given != "value" && given != "cost":
		return nil, usage.Errorf("check: -%s is for a request; write -request 'GET /x'", given)
	case o.after < 0 || o.after > mostAfter:
		return nil, usage.Errorf("check: -after %d: must be from 0 to %d", o.after, mostAfter)
	case o.after > 0 && o.store:
		return nil, usage.Error("check: -after and -store: nothing is charged in the store of the file; write one of them")
	}
	if _, err := rules.Compile(rules.Set{}, o.request.known()...); err != nil {
		return nil, usage.Errorf("check: -value or -cost: %s", strings.TrimPrefix(err.Error(), "rules: "))
	}
	return o, nil
}

// check reads and checks the files.
func (o *options) check(ctx context.Context, stdin io.Reader) (*found, error) {
	all, err := config.Read(o.names, stdin)
	if err != nil {
		return nil, usage.Errorf("check: %v", err)
	}
	f := &found{names: o.names}
	if len(all) == 1 && isRules(all[0].Data) {
		f.rulesOf = all[0].Name
		if f.rules, err = compile(all[0].Name, all[0].Data, o.request.known()); err == nil {
			f.warnings = slices.Concat(f.odd(), f.keyless())
		}
		return f, err
	}
	if f.file, err = config.Parse(all, os.LookupEnv); err != nil {
		return nil, err
	}
	if err := o.open(ctx, f.file, func(s *stores.Named) error { f.parted = s.Parted(); return nil }); err != nil {
		return nil, err
	}
	if err := serve.Check(f.file); err != nil {
		return nil, err
	}
	f.warnings = serve.Warnings(f.file, time.Now())
	if r := f.file.Rules; r != nil && r.File != "" {
		data, err := readRules(string(r.File))
		if err != nil {
			return nil, f.file.Fail("rules.file", "%v", err)
		}
		f.rulesOf = string(r.File)
		if f.rules, err = compile(f.rulesOf, data, o.request.known()); err == nil {
			f.warnings = slices.Concat(f.warnings, f.odd(), f.keyless(), f.never(), f.roleless(), f.unsorted(), f.apart())
		}
		return f, err
	}
	return f, nil
}

// open opens the store of a file, which asks it nothing yet.
func (o *options) open(ctx context.Context, c *config.File, use func(*stores.Named) error) error {
	if !c.Store.Remote() {
		return nil
	}
	s, err := stores.Open(ctx, string(c.Store.URL), stores.Options{Command: "check", Timeout: o.within})
	if err != nil {
		return c.Fail("store.url", "%s", strings.TrimPrefix(err.Error(), "check: -store "))
	}
	defer s.Close()
	return use(s)
}

// decide decides about the request.
func (o *options) decide(ctx context.Context, f *found) (report *dryrun.Report, err error) {
	if f.rules == nil {
		return nil, usage.Error("check: -request: the files name no file of rules")
	}
	r, err := o.request.of(f.file, f.rules)
	if err != nil {
		return nil, err
	}
	decide := func(s store.Store, private bool) error {
		report, err = dryrun.Of(ctx, f.rules, o.request.known(), s, private, r)
		if err != nil {
			return exit.Failf("check: -request: %v", err)
		}
		return nil
	}
	if !o.store {
		s := new(memory.Store)
		for range o.after {
			if _, err := f.rules.Decide(ctx, s, r); err != nil {
				return nil, err
			}
		}
		return report, decide(s, true)
	}
	if f.file == nil || !f.file.Store.Remote() {
		return nil, usage.Error("check: -store: the files name no store in the network")
	}
	ctx, cancel := context.WithTimeout(ctx, o.within) // decide has it too
	defer cancel()
	err = o.open(ctx, f.file, func(s *stores.Named) error { return decide(s, false) })
	return report, err
}

// write writes that the files are good, and what was decided.
func (f *found) write(w io.Writer) error {
	if f.decision != nil {
		return f.decision.Write(w)
	}
	_, err := fmt.Fprintln(w, words.OneLine(strings.Join(f.names, ", ")+": good: "+strings.Join(f.says(), "; ")))
	return err
}

// says is what the files say, in a few words.
func (f *found) says() (all []string) {
	if c := f.file; c != nil {
		if g := c.Gateway; g != nil {
			all = append(all, "gateway on "+listens(g.Listen)+" with "+words.Plural(len(g.Routes), "route", "routes"))
		}
		if c.Envoy != nil {
			text := "envoy on " + string(c.Envoy.Listen.Address)
			if c.Envoy.Quota != nil {
				text += " with quotas"
			}
			all = append(all, text)
		}
		if e := c.Egress; e != nil {
			all = append(all, "egress on "+string(e.Listen)+" to "+words.Plural(len(e.APIs), "API", "APIs"))
		}
		if c.Admin != nil {
			all = append(all, "admin on "+string(c.Admin.Listen.Address))
		}
		if c.Rules != nil && c.Rules.URL != "" {
			all = append(all, "rules by URL, which was not asked")
		}
		if c.Rules != nil && c.Rules.XDS != nil {
			all = append(all, "rules by xDS from "+string(c.Rules.XDS.Server)+", which was not asked")
		}
	}
	if f.rules != nil {
		text := count(f.rules)
		if f.file != nil {
			text = "rules " + f.rulesOf + ": " + text
		}
		all = append(all, text)
	} else if c := f.file; c.Rules == nil && (c.Gateway != nil || c.Envoy != nil || c.Egress == nil) {
		all = append(all, "no rules, so nobody is limited")
	}
	return all
}

func listens(all []config.Socket) string {
	var list []string
	for _, s := range all {
		list = append(list, string(s.Address))
	}
	return words.Enumerate(list)
}

// writeJSON writes the same for machines.
func writeJSON(w io.Writer, f *found, flaw error) error {
	out := struct {
		OK     bool           `json:"ok"`
		Error  string         `json:"error,omitempty"`
		File   string         `json:"file,omitempty"`
		Line   int            `json:"line,omitempty"`
		Column int            `json:"column,omitempty"`
		What   string         `json:"what,omitempty"`
		Says   []string       `json:"says,omitempty"`
		Warns  []string       `json:"warnings,omitempty"`
		Answer *dryrun.Report `json:"answer,omitempty"`
	}{OK: flaw == nil}
	if flaw != nil {
		out.Error = words.OneLine(flaw.Error())
	} else {
		out.Says, out.Warns, out.Answer = f.says(), f.warnings, f.decision
	}
	if e := (*tree.Error)(nil); errors.As(flaw, &e) {
		out.File, out.Line, out.Column, out.What = e.File, e.Line, e.Column, e.What
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(out)
}
