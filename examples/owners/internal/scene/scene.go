// Package scene holds the common parts of the examples for owners: a server on
// this machine, callers that send real requests to it, and a table of the
// results.
package scene

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/throttle-go/throttle/admit"
)

// Main runs an example as its main function. play must write a table and return
// soon; its context ends after half a minute, or when interrupted. The exit code
// is 1 if it fails, and 2 for flags and arguments, as there are none.
func Main(about string, play func(ctx context.Context, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := exit(ctx, os.Args, os.Stdout, os.Stderr, about, play)
	stop()
	os.Exit(code)
}

func exit(ctx context.Context, args []string, stdout, stderr io.Writer, about string, play func(context.Context, io.Writer) error) int {
	name := filepath.Base(args[0])
	if len(args) > 1 {
		switch args[1] {
		case "-h", "-help", "--help":
			fmt.Fprintf(stdout, "%s: %s. It takes no flags and ends by itself.\n", name, about)
			return 0
		}
		fmt.Fprintf(stderr, "%s: %q is one flag or argument too many, as there are none; -h says what it shows\n", name, args[1])
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := play(ctx, stdout); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// Serve serves h on a free port of this machine until stop, which closes all
// connections and does not wait for handlers.
func Serve(h http.Handler) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // an example panics on purpose
	}
	go server.Serve(listener) // ends with Close
	return "http://" + listener.Addr().String(), func() { server.Close() }, nil
}

// Keys are the customers of a service, by the API key that each has.
type Keys map[string]string

// Customer returns the customer whose key the request carries; empty if there is
// none.
func (k Keys) Customer(r *http.Request) string { return k[r.Header.Get("X-Api-Key")] }

// Request adds the customer: it is a throttlehttp.Handler.Request.
func (k Keys) Request(r *http.Request, q admit.Request) admit.Request {
	q.Client = k.Customer(r)
	return q
}

// Table writes rows, with cells separated by '|', in columns.
func Table(out io.Writer, rows ...string) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.ReplaceAll(row, "|", "\t"))
	}
	return w.Flush()
}
