package replay

import (
	"flag"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/accesslog"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/suggest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
)

const (
	mostVersions = 8
	mostTop      = 10_000
	mostKeys     = 100_000_000
	mostWindow   = time.Hour
)

func optionsOf(args []string) (*options, error) {
	o := &options{touch: 0.001, bad: 0.01, window: 10 * time.Second, top: 10, keys: 1_000_000}
	flags := o.flags()
	var err error
	if o.names, err = usage.ParseFlags(flags, args); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := o.check(); err != nil {
		return nil, err
	}
	return o, o.together(given)
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.Func("rules", "", func(text string) error { o.rules = append(o.rules, text); return nil })
	flags.Func("factor", "", o.addFactors)
	flags.StringVar(&o.suggest, "suggest", "", "")
	flags.Func("touch", "", share(&o.touch))
	flags.StringVar(&o.flood, "flood", "", "")
	flags.StringVar(&o.only, "only", "", "")
	flags.StringVar(&o.output, "o", "", "")
	flags.StringVar(&o.trace, "trace", "", "")
	flags.StringVar(&o.format, "format", "", "")
	flags.Func("fields", "", o.addFields)
	flags.Func("bad", "", share(&o.bad))
	flags.DurationVar(&o.window, "window", o.window, "")
	flags.BoolVar(&o.spread, "spread", false, "")
	flags.IntVar(&o.top, "top", o.top, "")
	flags.IntVar(&o.keys, "keys", o.keys, "")
	flags.BoolVar(&o.showKeys, "show-keys", false, "")
	flags.StringVar(&o.salt, "salt", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	return flags
}

// check checks each option by itself.
func (o *options) check() error {
	switch {
	case len(o.names) == 0:
		return usage.Error("replay: no log; write 'throttle replay -rules FILE LOG'")
	case len(o.rules) == 0 && o.suggest == "" && o.trace == "":
		return usage.Error("replay: nothing to replay; write -rules FILE, -suggest KEY or -trace FILE")
	case len(o.rules)+len(o.factors) > mostVersions:
		return usage.Errorf("replay: %d versions of the rules; at most %d", len(o.rules)+len(o.factors), mostVersions)
	case o.touch <= 0 || o.touch >= 0.5:
		return usage.Errorf("replay: -touch %g%%: must be above 0%% and below 50%%", 100*o.touch)
	case o.window < 0 || o.window > mostWindow:
		return usage.Errorf("replay: -window %v: must be from 0s to %v", o.window, mostWindow)
	case o.top < 1 || o.top > mostTop:
		return usage.Errorf("replay: -top %d: must be from 1 to %d", o.top, mostTop)
	case o.keys < 1 || o.keys > mostKeys:
		return usage.Errorf("replay: -keys %d: must be from 1 to %d", o.keys, mostKeys)
	}
	if err := accesslog.CheckFormat(o.format, o.fields); err != nil {
		return usage.Errorf("replay: -format: %v", err)
	}
	return nil
}

// together checks options that need or exclude others.
func (o *options) together(given map[string]bool) error {
	for _, name := range []string{"touch", "flood", "only", "o"} {
		if given[name] && o.suggest == "" {
			return usage.Errorf("replay: -%s is for a proposal; write -suggest KEY too", name)
		}
	}
	dashes := 0
	for _, name := range append(o.rules, o.names...) {
		if name == "-" {
			dashes++
		}
	}
	switch {
	case len(o.factors) > 0 && len(o.rules) == 0:
		return usage.Error("replay: -factor is for rules; write -rules FILE too")
	case dashes > 1:
		return usage.Error("replay: - can be read once; write the name of a file")
	case o.showKeys && o.salt != "":
		return usage.Error("replay: -show-keys and -salt: what is shown is not salted; write one of them")
	case o.suggest != "" && o.output == "" && o.trace == "-":
		return usage.Error("replay: -suggest and -trace -: only one can go to standard output; write -o FILE or -trace FILE")
	}
	if _, err := o.floodLimit(); err != nil {
		return err
	}
	return o.once()
}

// once refuses a log that is named twice.
func (o *options) once() error {
	if len(o.names) > accesslog.MostFiles {
		return nil // that is refused when they are opened
	}
	for i, name := range o.names {
		for _, before := range o.names[:i] {
			if outfile.Same(name, before) {
				return usage.Errorf("replay: %s and %s are one log, and its requests would count twice; name it once", words.Quote(before), words.Quote(name))
			}
		}
	}
	return nil
}

func (o *options) addFields(text string) error {
	more, err := accesslog.ParseFields(text)
	o.fields = append(o.fields, more...)
	return err
}

// addFactors reads factors, separated by commas.
func (o *options) addFactors(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(one), 64)
		if err != nil || !(x >= 0.001 && x <= 1000) {
			return usage.Errorf("%s must be from 0.001 to 1000", words.Quote(one))
		}
		o.factors = append(o.factors, x)
	}
	return nil
}

// share reads 1% or 0.01.
func share(to *float64) func(string) error {
	return func(text string) error {
		number, percent := strings.CutSuffix(text, "%")
		x, err := strconv.ParseFloat(number, 64)
		if percent {
			x /= 100
		}
		if err != nil || math.IsNaN(x) || x < 0 || x > 1 {
			return usage.Errorf("must be a share from 0%% to 100%%, as in 0.1%%")
		}
		*to = x
		return nil
	}
}

// floodLimit returns what honest keys stay within; zero if that is not given.
func (o *options) floodLimit() (l limit.Limit, err error) {
	if o.flood == "" {
		return l, nil
	}
	l, err = limit.Parse(o.flood, nil)
	if err != nil {
		return l, usage.Errorf("replay: -flood: %s", strings.TrimPrefix(err.Error(), "limit: "))
	}
	for _, period := range suggest.Periods {
		if l.Period == period && l.Count > 0 {
			return l, nil
		}
	}
	return l, usage.Errorf("replay: -flood %s: must be above zero, and by 10s, min, h or d", words.Quote(o.flood))
}
