// Command flood shows one customer that suddenly cleans up: it sends far more
// requests than the service can take. Limited, it is slowed down and the other
// customers do not notice; not limited, it is all of them that wait.
//
//	go run ./examples/owners/flood
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/examples/owners/internal/scene"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttlehttp"
)

// policy is what each customer may use: 30 requests a second, 6 of them at once.
const policy = `{"rules": [
	{"name": "per-customer", "key": "client", "limits": "30/s burst 6"}
]}`

// customers are those of the service, by API key.
var customers = scene.Keys{"k0": "cleaner", "k1": "first", "k2": "second", "k3": "third", "k4": "fourth"}

var others = []string{"k1", "k2", "k3", "k4"}

func main() {
	scene.Main("one customer floods, and the others do not notice", func(ctx context.Context, out io.Writer) error {
		acts, err := play(ctx)
		if err != nil {
			return err
		}
		return show(out, acts)
	})
}

// act holds the answers to each caller in one act of the play.
type act struct {
	name            string
	limited, floods bool
	others, cleaner scene.Tally
	took            time.Duration
}

const lasts = 700 * time.Millisecond // each act

func play(ctx context.Context) ([]*act, error) {
	acts := []*act{
		{name: "nobody floods", limited: true},
		{name: "one floods, limited", limited: true, floods: true},
		{name: "one floods, not limited", floods: true},
	}
	for _, a := range acts {
		if err := a.run(ctx); err != nil {
			return nil, err
		}
	}
	return acts, nil
}

func show(out io.Writer, acts []*act) error {
	rows := []string{"|who|sent|served|429|come again in|median of the served"}
	for _, a := range acts {
		rows = append(rows, a.name+"|"+row("four others", &a.others))
		if a.floods {
			rows = append(rows, "|"+row("the cleaner", &a.cleaner))
		}
	}
	return scene.Table(out, rows...)
}

func row(who string, t *scene.Tally) string {
	again := ""
	if least, most := t.Told(); most > 0 {
		again = fmt.Sprintf("%d to %d s", least, most)
	}
	return fmt.Sprintf("%s|%s|%s|%v", who, t.Row(), again, t.Median().Round(time.Millisecond))
}

// run sends requests to a service that can do 100 a second: 7 a second of each of
// the four others in turn, and 150 of the cleaner if it floods.
func (a *act) run(ctx context.Context) error {
	handler, err := service(a.limited)
	if err != nil {
		return err
	}
	url, stop, err := scene.Serve(handler)
	if err != nil {
		return err
	}
	defer stop()

	during, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var turn atomic.Int64
	work := func() {
		from := scene.Caller{URL: url, Key: others[int(turn.Add(1))%len(others)]}
		a.others.Add(from.Send(ctx, "GET", "/things/1"))
	}
	clean := func() {
		a.cleaner.Add(scene.Caller{URL: url, Key: "k0"}.Send(ctx, "DELETE", "/things/1"))
	}
	began := time.Now()
	var all sync.WaitGroup
	all.Go(func() { scene.Load(during, 28, 100, work) })
	if a.floods {
		all.Go(func() { scene.Load(during, 150, 100, clean) })
	}
	all.Wait()
	a.took = time.Since(began)
	return cmp.Or(a.others.Err(), a.cleaner.Err())
}

// service has two workers, each of which takes 20 ms for a request; what comes
// meanwhile waits.
func service(limited bool) (http.Handler, error) {
	workers := make(chan struct{}, 2)
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case workers <- struct{}{}:
			defer func() { <-workers }()
		case <-r.Context().Done():
			return
		}
		<-time.After(20 * time.Millisecond)
		fmt.Fprintln(w, "done")
	})
	if !limited {
		return work, nil
	}
	compiled, err := rules.Parse([]byte(policy))
	if err != nil {
		return nil, err
	}
	live := new(rules.Live)
	live.Swap(compiled)
	return &throttlehttp.Handler{Control: &admit.Control{Rules: live}, Request: customers.Request, Next: work}, nil
}
