// Package probe is the command 'throttle find -limit' and '-observe': it
// identifies a rate limiter from outside, by few requests or by those of the
// past. Package fit decides what to ask, and what the answers mean.
package probe

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outgoing"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/signal"
)

const help = `throttle find -limit identifies the rate limiter of a service from outside.

Usage: throttle find -limit [flags] URL
       throttle find -observe FILE [flags] [URL]

-limit sends requests to URL, slowly at first, and stops as soon as it is sure:
token bucket, fixed window, sliding log, sliding window counter, concurrency
limit, or a queue that delays; with its rate, burst, count, period and phase.
Few of them are refused. Refusals are 429, 503 and what the vendor documents;
RateLimit and similar header fields are used where there are any.

-observe sends nothing. It reads requests of the past: a HAR, as browsers save
it, or lines 'TIME STATUS [LATENCY]', or JSON objects as -log writes them. URL
then chooses the requests of a HAR, and the vendor by its host; of lines, which
have no URLs, all count.

It prints the limiter, each parameter with its 95 % interval, the likelihood of
all candidates, and the line of Go code for a caller.

Flags:
  -requests N   send at most so many requests (2000)
  -refusals N   end after so many refusals (60)
  -for D        end after so long (5m); a limit an hour takes hours
  -failures N   end after so many failures, or answers of 5xx that refuse
                nothing (10)
  -at-once N    at most so many in flight (32)
  -method M     GET if left out, or POST with -d
  -H FIELD      a header field 'Name: value'; may be repeated
  -d DATA       a body, or @FILE
  -timeout D    how long one answer may take (10s)
  -refused S    further statuses that are refusals, as 403,509
  -insecure     accept any certificate
  -yes          do not ask before sending to another machine
  -log FILE     write the requests and answers, for -observe
  -latency D    for -observe: how long answers took where that is not said (50ms)
  -scenario FILE
                write a scenario with such a server, for 'throttle sim'
  -json         print JSON

A FILE of - is standard output, in place of the text.

Exit codes: 0 identified, 1 failed or interrupted, 2 wrong usage or input, 3 not
identified within the bounds.

Examples:
  throttle find -limit http://127.0.0.1:8080/things
  throttle find -limit -yes -requests 300 -H 'Authorization: Bearer X' https://api.example.com/me
  throttle find -observe session.har https://api.example.com
  throttle find -observe times.log -scenario api.yaml && throttle sim api.yaml
`

// Bounds of the flags.
const (
	mostRequests = fit.MaxAnswers
	mostLength   = 7 * 24 * time.Hour
	mostAtOnce   = 1000
)

// options are what one command asks for.
type options struct {
	observe  string // a file; empty: send
	url      *url.URL
	to       *target
	plan     fit.Plan
	failures int
	refused  []int
	yes      bool
	latency  time.Duration
	json     bool
	log      string
	scenario string
}

// Wanted reports whether arguments ask for this command, and not for the search of
// a breakpoint.
func Wanted(args []string) bool {
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		switch {
		case a == "--":
			return false
		case strings.HasPrefix(a, "-") && (name == "limit" || name == "observe"):
			return true
		}
	}
	return false
}

// Run identifies a limiter by requests that it sends, or by those of a file.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := optionsOf(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	if err := outfile.Check(o.json, []string{o.observe}, outfile.Output{Option: "-scenario", Path: o.scenario, Begins: scenarioBegins, Written: "find -limit"}, outfile.Output{Option: "-log", Path: o.log, Begins: logBegins, Written: "find -log"}); err != nil {
		return err
	}
	f, err := o.findings(ctx, stdin, stderr)
	if err != nil {
		return err
	}
	return f.report(o, stdout)
}

// findings fits the answers of a file or of requests that are sent.
func (o *options) findings(ctx context.Context, stdin io.Reader, stderr io.Writer) (*findings, error) {
	if o.observe != "" {
		return o.observed(stdin)
	}
	if !outgoing.Loopback(o.url) && !o.yes {
		what := fmt.Sprintf("at most %s, of which about %d are refused, within %s", words.Plural(o.plan.Requests, "request", "requests"), o.plan.Refusals, words.Short(o.plan.Time))
		without := fmt.Sprintf("find: %s is not this machine, and there is no terminal to ask on; say -yes if you may send %s", words.Quote(o.url.Host), what)
		if err := outgoing.Ask(fmt.Sprintf("Send %s to %s?", what, o.url.Host), without, stdin, stderr); err != nil {
			return nil, err
		}
	}
	return o.asked(ctx, stderr)
}

// asked sends requests. What was seen is written even if it is not enough.
func (o *options) asked(ctx context.Context, stderr io.Writer) (*findings, error) {
	o.to.dialect = signal.For(o.url.Hostname())
	o.to.connect(o.plan.AtOnce)
	defer o.to.close()
	r := reader{o.to.dialect, o.refused}
	p := &prober{to: o.to, url: words.URL(o.url.String()), reader: r, plan: o.plan, failures: o.failures, show: progress(stderr)}
	err := p.run(ctx)
	p.show("")
	if o.log != "" && o.log != outfile.Dash && len(p.seen) > 0 {
		if err := outfile.Write(o.log, func(w io.Writer) error { return writeLog(w, r, p.seen) }); err != nil {
			return nil, exit.Failf("find: -log: %v", err)
		}
	}
	if err != nil {
		return nil, err
	}
	return findingsOf(r, o.url.Host, p.seen, p.answers, p.ended), nil
}

// longestLog bounds the time of a file: beyond it one of its times is wrong.
const longestLog = 10 * 366 * 24 * time.Hour

// observed reads a file.
func (o *options) observed(stdin io.Reader) (*findings, error) {
	text, err := readFile(o.observe, stdin)
	if err != nil {
		return nil, err
	}
	var all []seen
	name, host := o.observe, ""
	if name == outfile.Dash {
		name = "standard input"
	}
	har := isHAR(text)
	if har {
		all, host, err = readHAR(name, text, o.url)
	} else {
		all, err = readLog(name, text, o.latency)
	}
	if err != nil {
		return nil, usage.Errorf("find: -observe: %v", err)
	}
	if o.url != nil {
		host = o.url.Host
	}
	bySent(all)
	if first, last := all[0].sent, all[len(all)-1].sent; last.Sub(first) > longestLog {
		return nil, usage.Errorf("find: -observe: %s: requests from %s to %s; want ten years at most, and one clock", name, first.Format(time.DateOnly), last.Format(time.DateOnly))
	}
	r := reader{signal.For(host), o.refused}
	f := findingsOf(r, host, all, r.answers(all), "")
	if o.url != nil && !har {
		f.unchosen = fmt.Sprintf("%s has no URLs, so all of its requests count; %s chooses the vendor alone", name, words.URL(o.url.String()))
	}
	return f, nil
}

// optionsOf reads the arguments.
func optionsOf(args []string) (*options, error) {
	o := &options{to: new(target)}
	flags := flag.NewFlagSet("find -limit", flag.ContinueOnError)
	flags.Bool("limit", false, "")
	flags.StringVar(&o.observe, "observe", "", "")
	flags.IntVar(&o.plan.Requests, "requests", 2000, "")
	flags.IntVar(&o.plan.Refusals, "refusals", 60, "")
	flags.DurationVar(&o.plan.Time, "for", 5*time.Minute, "")
	flags.IntVar(&o.failures, "failures", 10, "")
	flags.IntVar(&o.plan.AtOnce, "at-once", 32, "")
	flags.StringVar(&o.to.method, "method", "", "")
	var fields list
	flags.Var(&fields, "H", "")
	data := flags.String("d", "", "")
	flags.DurationVar(&o.to.timeout, "timeout", 10*time.Second, "")
	refused := flags.String("refused", "", "")
	flags.BoolVar(&o.to.insecure, "insecure", false, "")
	flags.BoolVar(&o.yes, "yes", false, "")
	flags.StringVar(&o.log, "log", "", "")
	flags.DurationVar(&o.latency, "latency", 50*time.Millisecond, "")
	flags.StringVar(&o.scenario, "scenario", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	names, err := usage.ParseFlags(flags, args)
	if err != nil {
		return nil, err
	}
	o.plan.Timeout = o.to.timeout
	if err := cmp.Or(o.misplaced(flags), o.check()); err != nil {
		return nil, err
	}
	if o.refused, err = statuses(*refused); err != nil {
		return nil, err
	}
	if err := o.readName(names); err != nil || o.observe != "" {
		return o, err
	}
	return o, o.request(fields, *data)
}

// check checks the bounds.
func (o *options) check() error {
	for _, f := range []struct {
		name      string
		is, least int
		most      int
	}{
		{"requests", o.plan.Requests, 1, mostRequests},
		{"refusals", o.plan.Refusals, 1, mostRequests},
		{"failures", o.failures, 1, mostRequests},
		{"at-once", o.plan.AtOnce, 1, mostAtOnce},
	} {
		if f.is < f.least || f.is > f.most {
			return usage.Errorf("find: -%s %d: must be from %d to %d", f.name, f.is, f.least, f.most)
		}
	}
	switch {
	case o.plan.Time <= 0 || o.plan.Time > mostLength:
		return usage.Errorf("find: -for %v: must be above zero, and at most %s", o.plan.Time, words.Short(mostLength))
	case o.to.timeout <= 0 || o.to.timeout > time.Hour:
		return usage.Errorf("find: -timeout %v: must be above zero, and at most 1h", o.to.timeout)
	case o.latency < 0 || o.latency > maxLatency:
		return usage.Errorf("find: -latency %v: must be from zero to %s", o.latency, words.Short(maxLatency))
	}
	return nil
}

// misplaced refuses flags that have no meaning with -observe, or without it.
func (o *options) misplaced(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "limit", "observe", "refused", "scenario", "json":
		case "latency":
			if o.observe == "" {
				err = usage.Error("find: -latency: is for -observe")
			}
		default:
			if o.observe != "" {
				err = usage.Errorf("find: -%s: is for -limit; -observe sends nothing", f.Name)
			}
		}
	})
	return err
}

// readName reads the URL.
func (o *options) readName(names []string) (err error) {
	switch {
	case len(names) > 1:
		return usage.Errorf("find: %s is too much; write one URL", words.Quote(names[1]))
	case len(names) == 0 && o.observe == "":
		return usage.Error("find: no URL; write 'throttle find -limit URL', as in throttle find -limit http://127.0.0.1:8080/")
	case len(names) == 1:
		o.url, err = readURL(names[0])
	}
	return err
}

// request completes what is sent.
func (o *options) request(fields []string, data string) (err error) {
	o.to.url = o.url
	if o.to.header, err = outgoing.Header(fields); err != nil {
		return err
	}
	if o.to.header.Get("User-Agent") == "" {
		o.to.header.Set("User-Agent", "throttle-find")
	}
	if o.to.body, err = outgoing.Data(data); err != nil {
		return err
	}
	if o.to.method == "" {
		o.to.method = http.MethodGet
		if data != "" {
			o.to.method = http.MethodPost
		}
	}
	if _, err := http.NewRequest(o.to.method, o.url.String(), nil); err != nil {
		return usage.Errorf("find: -method %s: is not a method", words.Quote(o.to.method))
	}
	return nil
}

// statuses reads statuses apart by commas.
func statuses(text string) (all []int, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 200 || n > 999 {
			return nil, usage.Errorf("find: -refused %s: want statuses from 200 to 999, as in 403,509", words.Quote(text))
		}
		all = append(all, n)
	}
	return all, nil
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, ", ") }

func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}
