// Command pool is a service to try 'throttle find' on: some workers, each busy with one
// request at a time, and a queue without a bound. See docs/find.md.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:3000", "the address")
	workers := flag.Int("workers", 8, "how many requests it works on at once")
	work := flag.Duration("work", 40*time.Millisecond, "how long a request takes, half as long to half as long again")
	flag.Parse()
	log.Fatal(http.ListenAndServe(*listen, pool(*workers, *work)))
}

// pool answers requests, some at a time. A caller that has gone leaves the queue.
func pool(workers int, work time.Duration) http.Handler {
	places := make(chan struct{}, workers)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-r.Context().Done():
			return
		}
		time.Sleep(time.Duration((0.5 + rand.Float64()) * float64(work)))
		fmt.Fprintln(w, "done")
	})
}
