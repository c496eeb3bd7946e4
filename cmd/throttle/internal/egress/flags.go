package egress

import (
	"flag"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
)

// Flags are the flags that hold for every API: -account, -rate, -most, -wait and -dialect.
type Flags struct {
	// API is what they ask for, after Check.
	API

	command, account, rate string
}

// Define defines them in those of a command.
func (f *Flags) Define(flags *flag.FlagSet) {
	f.command = flags.Name()
	flags.StringVar(&f.account, "account", "", "")
	flags.StringVar(&f.Dialect, "dialect", "", "")
	flags.StringVar(&f.rate, "rate", "", "")
	flags.IntVar(&f.MaxInFlight, "most", 0, "")
	flags.DurationVar(&f.MaxWait, "wait", time.Minute, "")
}

// Check reads them. The error is a usage.Error.
func (f *Flags) Check() (err error) {
	if f.account != "" {
		var ok bool
		if f.Account, ok = strings.CutPrefix(f.account, "header:"); !ok || f.Account == "" {
			return usage.Errorf("%s: -account %s: must be like header:Authorization", f.command, words.Quote(f.account))
		}
	}
	if f.rate != "" {
		if f.Rate, err = limit.Parse(f.rate, time.LoadLocation); err != nil {
			return usage.Errorf("%s: -rate %s", f.command, strings.TrimPrefix(err.Error(), "limit: "))
		}
		if f.Rate.Unlimited() {
			return usage.Errorf("%s: -rate %s: bounds nothing; leave it out, and the rate is learnt", f.command, words.Quote(f.rate))
		}
	}
	switch {
	case f.MaxInFlight < 0:
		return usage.Errorf("%s: -most %d: must not be below zero", f.command, f.MaxInFlight)
	case f.MaxWait <= 0:
		return usage.Errorf("%s: -wait %v: must be above zero", f.command, f.MaxWait)
	}
	return nil
}

// Words is a mistake in one of them in words of the command line; empty if it is elsewhere.
func (f *Flags) Words(flaw *Flaw) string {
	switch field := flaw.Path[strings.LastIndexByte(flaw.Path, '.')+1:]; field {
	case "account", "dialect":
		return "-" + field + " " + flaw.What
	case "rate":
		return "-rate " + words.Quote(f.rate) + ": " + flaw.What
	}
	return ""
}

// Split parts a text at its commas; an empty one is an empty list.
func Split(text string) (all []string) {
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		all = append(all, strings.TrimSpace(one))
	}
	return all
}
