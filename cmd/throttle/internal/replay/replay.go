// Package replay is the command 'throttle replay': it says what rules would have done
// to the requests of access logs.
package replay

import (
	"context"
	"crypto/rand"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/accesslog"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outcome"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

const help = `throttle replay says what rate limits would have done to the requests of access logs.

Usage: throttle replay [flags] LOG...

It decides each request at the time of its line, with the code that limits live,
and prints how many would have been refused: by rule, by key, and when. It
changes nothing and asks nobody. A LOG may be gzip; - is standard input. Several
are read together, in the order of their times.

What to replay (one at least):
  -rules FILE     a file of rules, as of 'throttle rules'. Given several times,
                  the others are compared with the first
  -factor X       compare with the first rules, each limit times X; several are
                  separated by commas
  -suggest KEY    propose limits by a key, such as address, client or
                  header:X-Api-Key
  -touch SHARE    that refuse at most such a share of the honest keys, default
                  0.1%. A key is honest unless it does more than ten times what
                  99% of the keys do
  -flood LIMIT    or more than this, such as 600/min (or /10s, /h, /d)
  -only 'METHOD PATH'
                  for such requests alone; PATH may be a pattern, as in a rule, and
                  METHOD be left out
  -o FILE         write the proposal as a file of rules, default standard output
  -trace FILE     write when the requests came, for the arrivals of 'throttle sim'

Reading:
  -format FORMAT  envoy, nginx, combined, common, vhost, json, csv, a text with
                  $NAME as the log_format of nginx, or re:EXPRESSION with groups
                  such as (?P<address>...). Default: as the first lines say
  -fields LIST    TARGET=SOURCE, separated by commas: what the log calls time,
                  address, method, host, path, request, client, referer, agent,
                  forwarded, status, bytes, header:NAME, value:NAME, cost:NAME
  -bad SHARE      of the lines that may be malformed, default 1%
  -window TIME    by which lines may be out of order, default 10s
  -spread         spread the requests of each second over it, where a log has
                  whole seconds

Showing:
  -top N          keys, default 10
  -show-keys      show addresses and names; otherwise digests with a random salt
  -salt TEXT      a salt, so that digests are the same in each run
  -keys N         remember so many keys, default 1000000, 32 bytes each
  -json           print JSON

Examples:
  throttle replay -rules rules.yaml access.log
  throttle replay -rules rules.yaml -factor 0.5,2 access.log.*.gz
  throttle replay -suggest address -touch 0.1% -o rules.json access.log
  throttle replay -rules rules.yaml -fields header:X-Api-Key=key app.json
`

// options are what the command line asks for.
type options struct {
	names, rules []string
	factors      []float64
	suggest      string
	touch        float64
	flood, only  string
	output       string
	trace        string
	format       string
	fields       accesslog.Fields
	bad          float64
	window       time.Duration
	spread       bool
	top, keys    int
	showKeys     bool
	salt         string
	json         bool
}

// Run replays logs.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := optionsOf(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	w, err := o.begin(stdin)
	if err != nil {
		return err
	}
	log, err := accesslog.Open(ctx, o.names, stdin, accesslog.Options{Format: o.format, Fields: o.fields, Bad: o.bad, Window: o.window})
	if err != nil {
		return usage.Errorf("replay: %v", err)
	}
	err = w.read(ctx, log, terminal.Progress(stderr))
	stats := log.Stats()
	if e := log.Close(); err == nil && e != nil {
		err = exit.Failf("replay: %v", e)
	}
	if err != nil {
		return err
	}
	return w.write(stdout, stats)
}

// work is one run of the command.
type work struct {
	*options
	labels  []string // of the versions of the rules
	replay  *outcome.Replay
	first   *rules.Compiled
	notes   []string // what the replay leaves out
	peaks   *keyed
	trace   *trace
	answers []rules.Answer
	request translator
	seen    seen
}

// seen counts what the log itself says.
type seen struct {
	requests, throttled int64 // with 429
	late                int64 // earlier than one before
	foreign             int64 // lines that are no HTTP request, and left out
	parted              bool  // a time with a part of a second
	from, to            time.Time
}

// begin prepares all that can be wrong before the log is read.
func (o *options) begin(stdin io.Reader) (*work, error) {
	w := &work{options: o}
	if err := outfile.Check(o.json, slices.Concat(o.names, o.rules), o.outputs()...); err != nil {
		return nil, err
	}
	versions, err := w.versions(stdin)
	if err != nil {
		return nil, err
	}
	if len(versions) > 0 {
		w.first = versions[0]
		w.replay = outcome.New(outcome.Options{MaxKeys: o.keys, Top: o.top, Name: o.namer()}, versions...)
	}
	if o.suggest != "" {
		if w.peaks, err = newKeyed(o); err != nil {
			return nil, err
		}
	}
	if o.trace != "" {
		w.trace = new(trace)
	}
	return w, nil
}

func (o *options) outputs() (all []outfile.Output) {
	for _, one := range []outfile.Output{{Option: "-o", Path: o.output, Begins: proposedBegins, Written: "replay -suggest"}, {Option: "-trace", Path: o.trace, Begins: traceBegins, Written: "replay -trace"}} {
		if one.Path != "" {
			all = append(all, one)
		}
	}
	return all
}

// namer returns what stands for the values of keys.
func (o *options) namer() func(string) string {
	if o.showKeys {
		return func(values string) string { return values }
	}
	salt := o.salt
	if salt == "" {
		salt = rand.Text()
	}
	return func(values string) string { return outcome.Digest(salt + "\x00" + values) }
}

// read replays all requests.
func (w *work) read(ctx context.Context, log *accesslog.Reader, progress func(string)) error {
	defer progress("")
	source := spreader{log: log, on: w.spread}
	for {
		e, f, at, err := source.next(ctx)
		switch {
		case ctx.Err() != nil:
			return exit.Failf("replay: interrupted")
		case err != nil:
			return usage.Errorf("replay: %v", err)
		case e == nil:
			return w.seen.check()
		case e.NoHTTP:
			w.seen.foreign++
			continue
		}
		if err := w.one(ctx, e, f, at); err != nil {
			return exit.Failf("replay: %v", err)
		}
		if w.seen.requests%50_000 == 0 {
			progress(words.Whole(w.seen.requests) + " requests, at " + at.UTC().Format(time.DateTime))
		}
	}
}

// one replays one request.
func (w *work) one(ctx context.Context, e *accesslog.Entry, f *accesslog.Format, at time.Time) (err error) {
	w.seen.add(e, at)
	r := w.request.of(e, f, at, w.first)
	if w.replay != nil {
		if w.answers, err = w.replay.Add(ctx, r, w.answers); err != nil {
			return err
		}
	}
	if w.peaks != nil {
		if err := w.peaks.add(ctx, r); err != nil {
			return err
		}
	}
	if w.trace != nil {
		w.trace.add(at)
	}
	return nil
}

func (s *seen) add(e *accesslog.Entry, at time.Time) {
	if s.requests == 0 {
		s.from = at
	}
	s.requests++
	if at.Before(s.to) {
		s.late++
	} else {
		s.to = at
	}
	if e.Status == 429 {
		s.throttled++
	}
	s.parted = s.parted || e.Time.Nanosecond() != 0
}

// check reports that there is nothing to say.
func (s *seen) check() error {
	if s.requests == 0 {
		return usage.Errorf("replay: none of %s lines has an HTTP request; name the parts of a line by -fields", words.Whole(s.foreign))
	}
	return nil
}

// addressOf returns the address of the client of an entry, behind the proxies that c
// trusts. A log without the address of the peer has that which the last proxy wrote.
func addressOf(e *accesslog.Entry, c *rules.Compiled) netip.Addr {
	remote, forwarded := e.Address, e.Forwarded
	if !remote.IsValid() && forwarded != "" {
		last := forwarded
		if i := strings.LastIndexByte(forwarded, ','); i >= 0 {
			forwarded, last = forwarded[:i], forwarded[i+1:]
		} else {
			forwarded = ""
		}
		remote, _ = netip.ParseAddr(strings.TrimSpace(last))
	}
	if c == nil || forwarded == "" {
		return remote
	}
	return c.ClientAddress(remote, func(name string) []string {
		if name == "X-Forwarded-For" {
			return []string{forwarded}
		}
		return nil
	})
}
