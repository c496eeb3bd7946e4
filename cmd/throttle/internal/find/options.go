package find

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/knee"
	"github.com/throttle-go/throttle/cmd/throttle/internal/loadgen"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outgoing"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const (
	mostAtOnce      = 100_000
	mostLevel       = 10_000_000 // of package knee, as is defaultMost
	defaultMost     = 100_000.0
	commandsAtOnce  = 256
	leastTimeout    = time.Second
	timeoutPerBound = 4
)

// options are what one command asks for.
type options struct {
	search   knee.Search
	request  loadgen.Request
	command  loadgen.Command
	atOnce   int
	timeout  time.Duration
	even     bool
	seed     uint64
	headRoom float64
	yes      bool
	json     bool
	html     string
	rules    string
	scenario string
	reads    []string // files
}

// outputs are the files to write.
func (o *options) outputs() []outfile.Output {
	return []outfile.Output{{Option: "-html", Path: o.html, Begins: outfile.HTML}, {Option: "-o", Path: o.rules, Begins: rulesBegin, Written: "find -o"}, {Option: "-scenario", Path: o.scenario, Begins: scenarioBegins, Written: "find -scenario"}}
}

// name is what is loaded, without what may be secret.
func (o *options) name() string {
	if o.command != nil {
		return words.Quote(strings.Join(o.command, " "))
	}
	return words.URL(o.request.URL.String())
}

// share is a flag such as 0.1% or 0.001.
type share float64

func (s *share) String() string { return strconv.FormatFloat(float64(*s)*100, 'g', 6, 64) + "%" }

func (s *share) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x < 1) {
		return errors.New("want a share below 1, such as 0.1% or 0.001")
	}
	*s = share(x)
	return nil
}

// flagged is what flags set, before it is checked.
type flagged struct {
	errors, headRoom share
	fields           []string
	data             string
}

func optionsOf(args []string) (*options, error) {
	o := &options{}
	in := flagged{errors: 0.001, headRoom: knee.DefaultHeadRoom}
	command := false
	if i := slices.Index(args, "--"); i >= 0 {
		args, o.command, command = args[:i], args[i+1:], true
	}
	flags := o.flags(&in)
	names, err := usage.ParseFlags(flags, args)
	if err == nil {
		err = o.checkSet(flags)
	}
	switch {
	case err != nil:
		return nil, err
	case command && (len(o.command) == 0 || len(names) > 0):
		return nil, usage.Error("find: want either a URL or -- COMMAND; run 'throttle find -h'")
	case command:
		err = o.readCommand(flags, &in)
	case len(names) != 1:
		return nil, usage.Error("find: want one URL, such as http://127.0.0.1:3000/, or -- COMMAND; run 'throttle find -h'")
	default:
		err = o.readRequest(names[0], &in)
	}
	if err == nil {
		err = o.check(&in)
	}
	return o, err
}

func (o *options) flags(in *flagged) *flag.FlagSet {
	flags := flag.NewFlagSet("find", flag.ContinueOnError)
	b := &o.search.Bounds
	flags.DurationVar(&o.search.Objective.Latency, "p99", 250*time.Millisecond, "")
	flags.Var(&in.errors, "errors", "")
	flags.BoolVar(&o.search.Concurrency, "concurrency", false, "")
	flags.Float64Var(&b.Start, "from", 0, "")
	flags.Float64Var(&b.Most, "most", 0, "")
	flags.IntVar(&b.Requests, "requests", 1_000_000, "")
	flags.IntVar(&b.Failures, "failures", 0, "")
	flags.DurationVar(&b.Time, "for", 10*time.Minute, "")
	flags.DurationVar(&b.Recovery, "recovery", 30*time.Second, "")
	flags.IntVar(&o.atOnce, "at-once", 0, "")
	flags.DurationVar(&o.timeout, "timeout", 0, "")
	flags.BoolVar(&o.even, "even", false, "")
	flags.Uint64Var(&o.seed, "seed", 1, "")
	flags.StringVar(&o.request.Method, "method", "", "")
	flags.Func("H", "", func(text string) error { in.fields = append(in.fields, text); return nil })
	flags.StringVar(&in.data, "d", "", "")
	flags.BoolVar(&o.request.Insecure, "insecure", false, "")
	flags.BoolVar(&o.yes, "yes", false, "")
	flags.Var(&in.headRoom, "head-room", "")
	flags.StringVar(&o.html, "html", "", "")
	flags.StringVar(&o.rules, "o", "", "")
	_ = flags.String("rules", "", "") // see checkSet
	flags.StringVar(&o.scenario, "scenario", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	return flags
}

// checkSet refuses values of flags that were given, where zero would be read as the
// default, or package knee would speak of them by its own names.
func (o *options) checkSet(flags *flag.FlagSet) (err error) {
	b, p99 := o.search.Bounds, o.search.Objective.Latency
	least := 0.01
	if o.search.Concurrency {
		least = 1
	}
	flags.Visit(func(f *flag.Flag) {
		switch {
		case err != nil:
		case f.Name == "rules":
			err = usage.Error("find: -rules: names a file that is read, in other commands; the file of rules that find writes is -o FILE")
		case f.Name == "p99" && (p99 < 0 || p99 > time.Hour):
			err = usage.Errorf("find: -p99 %v: must be from 0, for no bound, to 1h", p99)
		case f.Name == "from" && !(b.Start >= least && b.Start <= mostLevel):
			err = usage.Errorf("find: -from %s: must be from %v to %s", words.Number(b.Start), least, words.Whole(mostLevel))
		case f.Name == "most" && !(b.Most >= least && b.Most <= mostLevel):
			err = usage.Errorf("find: -most %s: must be from %v to %s", words.Number(b.Most), least, words.Whole(mostLevel))
		case f.Name == "failures" && b.Failures < 1:
			err = usage.Errorf("find: -failures %d: must be at least 1", b.Failures)
		case f.Name == "at-once" && (o.atOnce < 1 || o.atOnce > mostAtOnce):
			err = usage.Errorf("find: -at-once %d: must be from 1 to %d", o.atOnce, mostAtOnce)
		case f.Name == "timeout" && o.timeout <= 0:
			err = usage.Errorf("find: -timeout %v: must be above 0, as 1s", o.timeout)
		case f.Name == "recovery" && (b.Recovery < 0 || b.Recovery > time.Hour):
			err = usage.Errorf("find: -recovery %v: must be from 0, for none, to 1h", b.Recovery)
		}
	})
	return err
}

// readCommand refuses flags that are about HTTP, and what is no program.
func (o *options) readCommand(flags *flag.FlagSet, in *flagged) error {
	var misplaced error
	flags.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"method", "H", "d", "insecure", "yes"}, f.Name) && misplaced == nil {
			misplaced = usage.Errorf("find: -%s is for a URL, not for a command", f.Name)
		}
	})
	if o.atOnce == 0 {
		o.atOnce = commandsAtOnce
	}
	return cmp.Or(misplaced, checkProgram(o.command[0]))
}

// checkProgram refuses what cannot be run.
func checkProgram(name string) error {
	_, err := exec.LookPath(name)
	if flaw := (*exec.Error)(nil); errors.As(err, &flaw) {
		err = flaw.Err
	}
	if flaw := (*fs.PathError)(nil); errors.As(err, &flaw) { // it names the file again
		err = flaw.Err
	}
	if err != nil {
		return usage.Errorf("find: %s: %v; want a program after --", words.Quote(name), err)
	}
	return nil
}

// readRequest reads what is sent.
func (o *options) readRequest(text string, in *flagged) (err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return usage.Errorf("find: %s is not a URL; want one such as http://127.0.0.1:3000/%s", words.BadURL(text), words.Brackets(text))
	case !slices.Contains([]string{"http", "https", "h2c"}, u.Scheme):
		return usage.Errorf("find: %s: want a URL with http://, https:// or h2c://", words.Quote(words.URL(text)))
	case words.BadPort(u) != "":
		return usage.Errorf("find: %s: %s", words.Quote(words.URL(text)), words.BadPort(u))
	}
	o.request.URL = u
	if o.request.Header, err = outgoing.Header(in.fields); err != nil {
		return err
	}
	if o.request.Body, err = outgoing.Data(in.data); err != nil {
		return err
	}
	if name, file := strings.CutPrefix(in.data, "@"); file {
		o.reads = []string{name}
	}
	if o.atOnce == 0 {
		o.atOnce = loadgen.DefaultInFlight
	}
	o.request.Idle = o.atOnce
	if _, err := loadgen.NewHTTP(o.request); err != nil {
		return usage.Errorf("find: -method %s: is not a method", words.Quote(o.request.Method))
	}
	return nil
}

// check fills in what depends on other flags, and checks the rest.
func (o *options) check(in *flagged) error {
	o.headRoom = float64(in.headRoom)
	o.search.Objective.Errors = float64(in.errors)
	if in.errors == 0 {
		o.search.Objective.Errors = -1 // none: knee's zero is its default
	}
	if o.search.Bounds.Recovery == 0 {
		o.search.Bounds.Recovery = -1 // never
	}
	if o.search.Concurrency {
		if o.search.Bounds.Most == 0 {
			o.search.Bounds.Most = float64(min(4096, o.atOnce))
		}
		if o.search.Bounds.Most > float64(o.atOnce) {
			return usage.Errorf("find: -most %g: must be at most the %d of -at-once", o.search.Bounds.Most, o.atOnce)
		}
	}
	if o.timeout == 0 {
		o.timeout = loadgen.DefaultTimeout
		if p99 := o.search.Objective.Latency; p99 > 0 {
			o.timeout = max(timeoutPerBound*p99, leastTimeout)
		}
	}
	if err := o.checkFlags(); err != nil {
		return err
	}
	if err := o.search.Check(); err != nil {
		return usage.Error(fmt.Sprintf("find: %v", err))
	}
	return o.checkFirst()
}

// checkFirst refuses bounds that leave no room for the first trial.
func (o *options) checkFirst() error {
	s := o.search
	if _, ok := s.Next(); ok {
		return nil
	}
	stop, s := s.Result().Stop, o.search
	s.Bounds.Requests, s.Bounds.Time = 1e9, 1000*time.Hour
	first, _ := s.Next()
	if stop == knee.TooLong {
		return usage.Errorf("find: -for %s: too short, as the first of a few dozen trials may take %s; write 10m or more", words.Short(o.search.Bounds.Time), words.Short(first.Duration.Round(time.Second)))
	}
	sends := max(first.Rate, float64(first.Concurrency)) * first.Duration.Seconds() // at least, of a concurrency
	return usage.Errorf("find: -requests %d: too few, as the first of a few dozen trials sends about %.0f; write %.0f or more", o.search.Bounds.Requests, sends, 100*sends)
}

// checkFlags refuses values that mean nothing. A bound of zero would be package
// knee's default.
func (o *options) checkFlags() error {
	b := o.search.Bounds
	switch {
	case !(o.headRoom > 0 && o.headRoom <= 0.99):
		return usage.Errorf("find: -head-room %g: must be above 0 and at most 99%%", o.headRoom)
	case b.Requests < 1:
		return usage.Errorf("find: -requests %d: must be at least 1", b.Requests)
	case b.Time <= 0:
		return usage.Errorf("find: -for %v: must be above 0, as 10m", b.Time)
	case o.search.Concurrency && o.scenario != "":
		return usage.Error("find: -scenario is for a search of the rate; leave -concurrency out")
	case b.Start > cmp.Or(b.Most, defaultMost):
		return usage.Errorf("find: -from %s: must be at most -most, which is %s", words.Number(b.Start), words.Number(cmp.Or(b.Most, defaultMost)))
	case o.timeout < o.search.Objective.Latency || o.timeout > time.Hour:
		return usage.Errorf("find: -timeout %v: must be from -p99, which is %v, to 1h", o.timeout, o.search.Objective.Latency)
	}
	return nil
}
