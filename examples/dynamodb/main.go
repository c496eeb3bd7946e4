// Command dynamodb lets many workers, in two processes, write to a DynamoDB
// table whose capacity moves in steps, as auto scaling moves it, and prints the
// results: with the Gates of throttleaws, and beside it with the retry modes of
// the SDK.
//
//	go run ./examples/dynamodb
//
// The DynamoDB API is dynalite, which scripts/need.sh installs; it has no limits
// of its own, so a proxy before it gives the table its capacity and refuses as
// DynamoDB does. Every mode has its own proxy; they run at the same time.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if wrote(ctx) {
		return
	}
	took := flag.Duration("for", 32*time.Second, "how long to write; a quarter of it at each capacity")
	flag.Parse()
	if err := run(ctx, os.Stdout, *took, modes); err != nil {
		fmt.Fprintln(os.Stderr, "dynamodb:", err)
		stop()
		os.Exit(1)
	}
}

// A run is two processes of 16 workers each, that would write a few thousand items
// a second without a limit, to a table with some saved up capacity: DynamoDB keeps
// that of 300 s, here it is that of about 3.
const (
	processes = 2
	workers   = 16
	credit    = 600
)

// steps are the capacities, a quarter of the time each.
func steps(took time.Duration) []capacity {
	return []capacity{{0, 200}, {took / 4, 400}, {took / 2, 130}, {took * 3 / 4, 260}}
}

// result is what became of one mode.
type result struct {
	mode      string
	throttled float64 // of all answers
	used      float64 // of what could be written
	fair      float64 // what the process that wrote least wrote, of what the other did
	written   int64
	lost      int64         // writes that were given up
	slow      time.Duration // 99 of 100 writes took no longer
}

// run compares the modes and prints a table.
func run(ctx context.Context, out io.Writer, took time.Duration, modes []string) error {
	results, err := compare(ctx, took, modes)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d processes of %d workers write for %v, to a table with a capacity of", processes, workers, took)
	for _, s := range steps(took) {
		fmt.Fprintf(out, " %d/s from %v,", s.units, s.from)
	}
	fmt.Fprintf(out, " and %d saved up\n", credit)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "mode\tthrottled\tcapacity used\twritten\tgiven up\t99 % took under\tleast/most\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%.2f %%\t%.1f %%\t%d\t%d\t%v\t%.2f\t\n", r.mode, 100*r.throttled, 100*r.used, r.written, r.lost, r.slow.Round(time.Millisecond), r.fair)
	}
	return w.Flush()
}

// compare starts a DynamoDB API and lets each mode write to it, all at once.
func compare(ctx context.Context, took time.Duration, modes []string) ([]result, error) {
	api, stop, err := startAPI(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	c, err := client(api.String(), "throttle", "owner")
	if err != nil {
		return nil, err
	}
	if err := create(ctx, c); err != nil {
		return nil, err
	}
	results, errs := make([]result, len(modes)), make([]error, len(modes))
	var all sync.WaitGroup
	for i, mode := range modes {
		all.Go(func() { results[i], errs[i] = measure(ctx, api, took, mode) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// measure runs the processes of one mode.
func measure(ctx context.Context, api *url.URL, took time.Duration, mode string) (result, error) {
	t := before(api, took, steps(took), credit)
	server := httptest.NewServer(t)
	defer server.Close()
	reports, errs := make([]report, processes), make([]error, processes)
	var all sync.WaitGroup
	for i := range processes {
		o := order{Endpoint: server.URL, Mode: mode, Who: fmt.Sprintf("%s-%d", mode, i), For: took}
		all.Go(func() { reports[i], errs[i] = start(ctx, o) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return result{}, err
		}
	}
	tally, used := t.tally()
	r := result{mode: mode, used: used}
	var sum counts
	var each []int64
	for _, c := range tally {
		sum.Served += c.Served
		sum.Throttled += c.Throttled
		each = append(each, c.Served)
	}
	r.throttled = float64(sum.Throttled) / float64(sum.Served+sum.Throttled)
	r.fair = float64(slices.Min(each)) / float64(slices.Max(each))
	for _, p := range reports {
		r.written, r.lost, r.slow = r.written+p.Written, r.lost+p.Lost, max(r.slow, p.Slow)
	}
	return r, nil
}

// An order is what a process is to do, a report what it did.
type (
	order struct {
		Endpoint, Mode, Who string
		For                 time.Duration
	}
	report struct {
		Written, Lost int64
		Slow          time.Duration // 99 of 100 writes took no longer
	}
)

// orderVariable makes this program a writer.
const orderVariable = "DYNAMODB_WRITER"

// start lets another process of this program write.
func start(ctx context.Context, o order) (r report, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("writer %s: %w", o.Who, err)
	}
	return r, json.Unmarshal(out, &r)
}

// wrote does what it is ordered to, if it is.
func wrote(ctx context.Context) bool {
	text := os.Getenv(orderVariable)
	if text == "" {
		return false
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = obey(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dynamodb:", err)
		os.Exit(1)
	}
	return true
}

func obey(ctx context.Context, o order) error {
	c, err := client(o.Endpoint, o.Mode, o.Who)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(work(ctx, c, o.Who, workers, o.For))
}
