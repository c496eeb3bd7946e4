// Command http runs a rate-limited API and clients that keep to its limit
// without knowing it: two processes' worth of workers share 20 requests a
// second for a few seconds.
//
//	go run ./examples/http
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout, 100); err != nil {
		log.Fatal(err)
	}
}

// run makes calls from ten workers and reports what became of them.
func run(ctx context.Context, out io.Writer, calls int64) error {
	var answered, refused atomic.Int64
	address, stop, err := serve(&refused)
	if err != nil {
		return err
	}
	defer stop()

	// The whole client: nothing is known of the limit here.
	client := http.Client{Transport: new(throttlehttp.Transport)}

	var left atomic.Int64
	left.Store(calls)
	began := time.Now()
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for left.Add(-1) >= 0 && get(ctx, &client, address) == nil {
				answered.Add(1)
			}
		})
	}
	workers.Wait()
	fmt.Fprintf(out, "%d of %d calls answered in %.1f s; %d were refused on the way\n",
		answered.Load(), calls, time.Since(began).Seconds(), refused.Load())
	return ctx.Err()
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// serve starts an API of 20 requests a second on a free port of this machine.
func serve(refused *atomic.Int64) (url string, stop func(), err error) {
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	limited := throttlehttp.Limit(limit.Limit{Count: 20, Period: time.Second}, nil)(api)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: count(limited, refused), ReadHeaderTimeout: time.Second}
	go server.Serve(listener) // ends with Close
	return "http://" + listener.Addr().String(), func() { server.Close() }, nil
}

// count counts refusals.
func count(next http.Handler, refused *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&counter{w, refused}, r)
	})
}

type counter struct {
	http.ResponseWriter
	refused *atomic.Int64
}

func (c *counter) WriteHeader(code int) {
	if code == http.StatusTooManyRequests {
		c.refused.Add(1)
	}
	c.ResponseWriter.WriteHeader(code)
}
