// Command consistent does jobs of several steps over a service that throttles,
// fails and loses answers, and leaves none half done: stock is reserved, a card
// charged, a parcel sent; when a step fails for good, every step that may have
// run is undone. Beside it the same jobs are done by a program that takes each
// error for "it did not happen".
//
//	go run ./examples/consistent
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, naive := range []bool{false, true} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		base := new(http.Transport)
		r, err := run(ctx, trial{listener, base, "http://" + listener.Addr().String(), 600, naive})
		if err != nil {
			log.Fatal(err)
		}
		r.print(os.Stdout)
	}
}

// trial is what is run.
type trial struct {
	listener net.Listener
	base     *http.Transport
	url      string
	jobs     int
	naive    bool
}

// report is what became of it.
type report struct {
	trial
	tally
	done   int
	breaks []string // what must not be
}

// run starts the service, does the jobs, settles what was left, and looks at
// what the service has done.
func run(ctx context.Context, t trial) (report, error) {
	service, stop := t.serve()
	defer stop()
	b := newBuyer(t.url, t.base, t.naive)
	b.work(ctx, t.jobs)
	if err := b.settleAll(ctx); err != nil {
		return report{}, err
	}
	return t.report(service, b), nil
}

// serve runs the service: a shop, what goes wrong on the way to it, and a limit.
func (t trial) serve() (f *faults, stop func()) {
	f = &faults{next: newShop(), seed: 5, pause: 2 * time.Second, late: 300 * time.Millisecond, asked: map[string]int{}}
	mux := http.NewServeMux()
	mux.Handle("/{kind}/{job}", f)
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: &throttlehttp.Handler{
		Control: &admit.Control{Limit: limit.Limit{Count: 500, Period: time.Second}},
		Next:    mux,
	}}
	go server.Serve(t.listener) // ends with Close
	return f, func() {
		t.base.CloseIdleConnections()
		server.Close()
	}
}

// work makes jobs, twenty at a time.
func (b *buyer) work(ctx context.Context, jobs int) {
	names := make(chan string)
	var workers sync.WaitGroup
	for range 20 {
		workers.Go(func() {
			for job := range names {
				var gaveUp *throttle.Error
				err := b.buy(ctx, job) // what failed was taken back, or is in the journal
				if errors.As(err, &gaveUp) && gaveUp.Wait > 0 && gaveUp.Wait != pace.Never {
					rest(ctx, gaveUp.Wait) // the next job would not come through either
				}
			}
		})
	}
	for i := range jobs {
		names <- strconv.Itoa(i)
	}
	close(names)
	workers.Wait()
}

// settleAll goes through the journal until it is empty.
func (b *buyer) settleAll(ctx context.Context) error {
	for wait := b.settle(ctx); wait > 0; wait = b.settle(ctx) {
		if err := rest(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// rest waits, unless ctx ends.
func rest(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// report looks at what the service has done once nothing is on its way to it.
func (t trial) report(f *faults, b *buyer) report {
	f.running.Wait()
	r := report{trial: t, tally: b.seen}
	r.done, r.breaks = audit(f.next, b)
	return r
}

// audit counts the jobs that are done, and finds what must not be.
func audit(s *shop, b *buyer) (done int, breaks []string) {
	for job, word := range b.done {
		if word {
			done++
		}
		reserved, charged, sent := s.of(stock, job), s.of(charges, job), s.of(shipments, job)
		switch {
		case sent.holds() && !charged.holds():
			breaks = append(breaks, "sent without charge: "+job)
		case charged.done > 1:
			breaks = append(breaks, "charged twice: "+job)
		case sent.done > 1:
			breaks = append(breaks, "sent twice: "+job)
		case reserved.holds() != word || charged.holds() != word || sent.holds() != word:
			breaks = append(breaks, "half done: "+job)
		}
	}
	for job := range b.journal {
		breaks = append(breaks, "open: "+job)
	}
	return done, breaks
}

// print writes one paragraph.
func (r report) print(w io.Writer) {
	name := "goes by MayHaveRun"
	if r.naive {
		name = "naive"
	}
	fmt.Fprintf(w, "%s: %d of %d jobs done, the others not; %d against the rules\n", name, r.done, r.jobs, len(r.breaks))
	fmt.Fprintf(w, "  steps that failed: %d surely had not run, %d may have; %d of those were parcels that had left\n", r.surely, r.perhaps, r.left)
	fmt.Fprintf(w, "  %d steps were given up at once, as they would have had to wait, up to %v; %d jobs were settled later\n", r.refused, r.longest.Round(time.Millisecond), r.later)
	kinds := map[string]int{}
	for _, s := range r.breaks {
		what, _, _ := strings.Cut(s, ":")
		kinds[what]++
	}
	for _, what := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(w, "  %s: %d jobs\n", what, kinds[what])
	}
}
