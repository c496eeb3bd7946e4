// Package take is the command 'throttle take': one decision of a limiter in a
// file, Redis or PostgreSQL, or the measurement of such a store.
package take

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
)

const help = `throttle take asks whether something may pass, and charges it if so.

Usage: throttle take [flags] RULE KEY [N]
       throttle take -store redis://... -expect RUN_ID

RULE is a limit: COUNT/[N]UNIT, then 'burst N' or a kind, as in '100/s burst 200',
'5000/h sliding-window' or '5000/month calendar-window Europe/Berlin'. UNIT is ms,
s, min, h, day, week or month. 3/day allows three at once and then one every 8
hours; '3/day calendar-window' allows three each day. KEY is whatever is limited.
N is the cost, 1 if left out; 0 only looks, and -3 gives 3 back.

It prints one line that begins with 'allowed' or 'denied', and how long to wait.

Exit codes: 0 allowed, 4 denied, 1 could not decide, 2 wrong usage.

Flags:
  -store URL    where keys are remembered; if left out, $THROTTLE_STORE, then a
                file in the cache folder of the user
  -min M        take what there is, if it is at least M
  -debt         take N even if it does not fit; without -min
  -timeout D    how long the store has to decide (1s)
  -create       make the tables in PostgreSQL first, where they are missing
  -json         print JSON
  -expect RUN_ID
                announce a planned fail-over to the Redis process with this
                run_id, as INFO server of it shows, so that nothing is refused
                for it; call it before, and name the process that serves now as
                -store. none takes it back
  -within D     for -expect: how long it holds, at most 24h (2m)
  -bench        measure the store instead, with the keys KEY/0, KEY/1 ...
  -callers C    for -bench: how many ask at a time (16)
  -for D        for -bench: how long (2s)
  -keys K       for -bench: how many keys (10000)

Stores:
  memory:FILE                        a file on this machine
  memory:                            nowhere: for -bench
  redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]
  redis://HOST,HOST,HOST/?cluster=true
  redis+sentinel://HOST,HOST/MASTER[/DB]
                                     rediss and rediss+sentinel are with TLS;
                                     ?prefix=P&slots=N&batch=N&overlap=3s and
                                     strict=true as in package throttleredis,
                                     apart by &; of sentinels
                                     sentinel_password, sentinel_user
  postgres://USER:PASSWORD@HOST[:PORT]/DATABASE
                                     ?table=NAME as in package throttlesql, and
                                     whatever else libpq knows

Examples:
  throttle take 3/h backup && backup
  throttle take '100/s burst 200' user:42 5
  throttle take -store redis://localhost '10/min sliding-log' mail
  until throttle take 1/s api || [ $? != 4 ]; do sleep 0.2; done
  throttle take -json 3/h backup 0
  throttle take -bench -store redis://localhost -callers 64 1000000/s bench
  throttle take -store redis://primary -expect "$(redis-cli -h replica info server | tr -d '\r' | sed -n s/^run_id://p)"
`

// taking is what one command asks for.
type taking struct {
	store   string
	json    bool
	create  bool
	timeout time.Duration
	ask     limit.Ask
	bench   *bench        // if it is to be measured
	expect  string        // the process that is to take over, if that is to be announced
	within  time.Duration // for how long
}

// Run asks a store once, or measures it.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	t, err := takingOf(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	operate.OutliveReaders() // of a pipe: the exit code tells what was decided
	opening, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	s, err := t.open(opening)
	if err != nil {
		return err
	}
	defer s.Close()
	switch {
	case t.bench != nil:
		return t.measure(ctx, s, stdout)
	case t.expect != "":
		return t.announce(opening, s, stdout)
	}
	return t.decide(opening, s, stdout)
}

// takingOf reads the arguments.
func takingOf(args []string) (*taking, error) {
	t, b := new(taking), new(bench)
	flags := flag.NewFlagSet("take", flag.ContinueOnError)
	flags.StringVar(&t.store, "store", "", "")
	flags.Int64Var(&t.ask.Min, "min", 0, "")
	flags.BoolVar(&t.ask.Debt, "debt", false, "")
	flags.DurationVar(&t.timeout, "timeout", time.Second, "")
	flags.BoolVar(&t.create, "create", false, "")
	flags.BoolVar(&t.json, "json", false, "")
	flags.StringVar(&t.expect, "expect", "", "")
	flags.DurationVar(&t.within, "within", 2*time.Minute, "")
	measures := flags.Bool("bench", false, "")
	flags.IntVar(&b.callers, "callers", 16, "")
	flags.DurationVar(&b.length, "for", 2*time.Second, "")
	flags.IntVar(&b.keys, "keys", 10_000, "")
	names, err := usage.ParseFlags(flags, negativeLast(args))
	if err != nil {
		return nil, err
	}
	if t.expect != "" {
		return t, t.checkExpect(flags, names)
	}
	if err := t.readNames(names); err != nil {
		return nil, err
	}
	only, partly := "", false
	flags.Visit(func(f *flag.Flag) {
		partly = partly || f.Name == "min"
		if f.Name == "callers" || f.Name == "for" || f.Name == "keys" || f.Name == "within" {
			only = f.Name
		}
	})
	switch {
	case t.timeout <= 0:
		return nil, usage.Errorf("take: -timeout %v: must be above zero", t.timeout)
	case partly && (t.ask.Min < 1 || t.ask.Min > t.ask.N):
		return nil, usage.Errorf("take: -min %d: must be from 1 to N, which is %d", t.ask.Min, t.ask.N)
	case partly && t.ask.Debt:
		return nil, usage.Error("take: -min takes a part of N and -debt all of it; write one of them")
	case *measures:
		t.bench = b
		return t, b.check()
	case only == "within":
		return nil, usage.Error("take: -within: is for -expect")
	case only != "":
		return nil, usage.Errorf("take: -%s: is for -bench", only)
	}
	return t, nil
}

// negativeLast makes a last argument like -3 an N and not a flag. Behind a -- it is no
// flag anyway.
func negativeLast(args []string) []string {
	n := len(args) - 1
	if n < 2 || strings.HasPrefix(args[n-1], "-") || !strings.HasPrefix(args[n], "-") || slices.Contains(args, "--") {
		return args
	}
	if _, err := strconv.ParseInt(args[n], 10, 64); err != nil {
		return args
	}
	return append(append(args[:n:n], "--"), args[n])
}

// readNames reads RULE KEY [N].
func (t *taking) readNames(names []string) (err error) {
	switch {
	case len(names) == 0:
		return usage.Error("take: RULE and KEY are missing; write 'throttle take RULE KEY [N]', as in throttle take 3/h backup")
	case len(names) == 1:
		return usage.Errorf("take: RULE %s: KEY is missing; write 'throttle take RULE KEY [N]', as in throttle take 3/h backup", words.Quote(names[0]))
	case len(names) > 3:
		return usage.Errorf("take: %s is too much; write 'throttle take RULE KEY [N]', with a RULE of several words in quotes", words.Quote(names[3]))
	case names[1] == "":
		return usage.Error("take: KEY is empty; write what is limited, as in throttle take 3/h backup")
	}
	if t.ask.Limit, err = limit.Parse(names[0], time.LoadLocation); err != nil {
		return usage.Error("take: RULE " + strings.TrimPrefix(err.Error(), "limit: "))
	}
	t.ask.Key, t.ask.N = names[1], 1
	if len(names) == 3 {
		if t.ask.N, err = strconv.ParseInt(names[2], 10, 64); err != nil {
			return usage.Errorf("take: N %s: must be a whole number below 2^63, 0 to look, below 0 to give back", words.Quote(names[2]))
		}
	}
	return nil
}

// open opens the store that is asked for.
func (t *taking) open(ctx context.Context) (*stores.Named, error) {
	url := stores.URL(t.store, "")
	switch {
	case url != "":
	case t.bench != nil:
		url = "memory:"
	default:
		path, err := stores.OwnState()
		if err != nil {
			return nil, exit.Failure("take: " + err.Error() + "; name a store by -store")
		}
		url = "memory:" + path
	}
	o := stores.Options{Command: "take", Given: stores.Given(t.store), Timeout: t.timeout, Create: t.create}
	if t.bench != nil {
		o.InProcess, o.Callers = true, t.bench.callers
	}
	return stores.Open(ctx, url, o)
}

// decide asks once.
func (t *taking) decide(ctx context.Context, s *stores.Named, stdout io.Writer) error {
	var d [1]limit.Decision
	if _, err := s.Take(ctx, []limit.Ask{t.ask}, d[:]); err != nil {
		return exit.Failf("take: %s: %v", s.Name, err)
	}
	err := t.tell(stdout, d[0])
	switch {
	case err != nil && !d[0].OK: // a script that fails open must not take it for undecided
		return exit.Status{Code: 4, Text: "take: denied, but that cannot be written: " + err.Error()}
	case err != nil && d[0].N > 0:
		return exit.Failf("take: charged, but that cannot be written: %v", err)
	case err != nil:
		return exit.Failf("take: %v", err)
	case !d[0].OK:
		return exit.Denied{}
	}
	return nil
}

func (t *taking) tell(w io.Writer, d limit.Decision) error {
	if t.json {
		return json.NewEncoder(w).Encode(t.object(d))
	}
	_, err := fmt.Fprintln(w, t.line(d))
	return err
}

// line is the decision in one line.
func (t *taking) line(d limit.Decision) string {
	key, left := words.Quote(t.ask.Key), ""
	if !t.ask.Limit.Unlimited() {
		left = fmt.Sprintf("; %d of %d remain", d.Remaining, d.Max)
	}
	if d.ResetAfter > 0 {
		left += ", all of them in " + spell(d.ResetAfter, d.At)
	}
	switch {
	case d.RetryAfter == limit.Never:
		return fmt.Sprintf("denied: %d of %s: never, as %s allows %d at most%s", t.ask.N, key, t.ask.Limit, d.Max, left)
	case !d.OK && t.ask.N == 0:
		return fmt.Sprintf("denied: %s is in debt: come again in %s%s", key, spell(d.RetryAfter, d.At), left)
	case !d.OK:
		return fmt.Sprintf("denied: %d of %s: come again in %s%s", t.ask.N, key, spell(d.RetryAfter, d.At), left)
	case t.ask.N == 0:
		return fmt.Sprintf("allowed: nothing of %s, only looked%s", key, left)
	case t.ask.N < 0:
		return fmt.Sprintf("allowed: %d of %s given back%s", -max(d.N, -math.MaxInt64), key, left)
	case d.N < t.ask.N:
		return fmt.Sprintf("allowed: %d of %s, instead of %d%s", d.N, key, t.ask.N, left)
	}
	return fmt.Sprintf("allowed: %d of %s%s", d.N, key, left)
}

// spell writes a time from at on, with its date if it is longer than a day.
func spell(d time.Duration, at time.Time) string {
	text := d.String()
	if d > 24*time.Hour && d != limit.Never && !at.IsZero() {
		text += ", on " + at.Add(d).UTC().Format("2006-01-02 15:04:05 MST")
	}
	return text
}

// decision is one in version 1 of the form that 'throttle take -json' prints.
// Fields may be added to it; those that are there stay.
type decision struct {
	Version    int       `json:"version"`
	Allowed    bool      `json:"allowed"`
	Rule       string    `json:"rule"`
	Key        string    `json:"key"`
	Asked      int64     `json:"asked"`
	Charged    int64     `json:"charged"`
	Most       *int64    `json:"most"` // null: no limit
	Remaining  *int64    `json:"remaining"`
	RetryAfter *float64  `json:"retry_after_s"` // null: never
	ResetAfter *float64  `json:"reset_after_s"`
	At         time.Time `json:"at"` // by the clock of the store
}

func (t *taking) object(d limit.Decision) decision {
	count := func(n int64) *int64 {
		if t.ask.Limit.Unlimited() {
			return nil
		}
		return &n
	}
	seconds := func(d time.Duration) *float64 {
		if d == limit.Never {
			return nil
		}
		s := d.Seconds()
		return &s
	}
	return decision{
		Version: 1, Allowed: d.OK, Rule: t.ask.Limit.String(), Key: t.ask.Key, Asked: t.ask.N, Charged: d.N,
		Most: count(d.Max), Remaining: count(d.Remaining), RetryAfter: seconds(d.RetryAfter), ResetAfter: seconds(d.ResetAfter), At: d.At.UTC(),
	}
}
