// Command kafka-cassandra writes the records of a Kafka topic into a Cassandra
// table, as fast as the database bears and no faster, and loses none of them. It
// is a program to copy: see README.md beside it.
//
//	go run . -standin              Kafka and Cassandra in this process
//	./servers start && go run . -create -produce 200000 -once
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
)

// options are what the flags say.
type options struct {
	brokers                 []string
	cassandra               string
	topic, group, dead      string
	table                   string
	timeout                 time.Duration
	most, window, tries     int
	slowdown                float64
	bytes                   int64
	within                  time.Duration
	session, revoke, drain  time.Duration
	every                   time.Duration
	throw, fixed            bool
	metrics                 string
	create, once, inProcess bool
	produce                 int64
	size                    int
	dial                    dialer // nil: the usual; tests have a network of their own
	protocol                int    // version of the native protocol; 0: the highest that both have
}

// dialer connects.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// usage is an error of the command line.
type usage struct{ error }

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("kafka-cassandra", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	brokers := f.String("brokers", "127.0.0.1:19092", "brokers of Kafka, HOST:PORT,...")
	f.StringVar(&o.cassandra, "cassandra", "127.0.0.1:19042", "a node of Cassandra, HOST:PORT")
	f.StringVar(&o.topic, "topic", "readings", "topic to read")
	f.StringVar(&o.group, "group", "readings-to-cassandra", "consumer group, which keeps the offsets")
	f.StringVar(&o.table, "table", standin.Table, "table to write, KEYSPACE.TABLE")
	f.StringVar(&o.dead, "dead", "", "topic for records that cannot be written; if empty, the program ends at the first")
	f.DurationVar(&o.timeout, "timeout", 2*time.Second, "bound of one write")
	f.IntVar(&o.most, "most", 512, "most writes in flight; how many there are is learnt")
	f.Float64Var(&o.slowdown, "slowdown", 1, "how many times as long as without others beside it a write may take: with 6 a node writes more rows a second, each later; not beside other programs of that node")
	f.BoolVar(&o.fixed, "fixed", false, "learn nothing: -most in flight, each retried after 100ms, as a pool of goroutines; to compare")
	f.IntVar(&o.window, "window", 10_000, "most records of a partition above its frontier; a crash repeats them, and what was written since the last commit")
	f.Int64Var(&o.bytes, "bytes", 256<<20, "most bytes of all records that are not written")
	f.IntVar(&o.tries, "tries", 20, "tries of a record before it is given up; refusals and the time of an outage do not count")
	f.DurationVar(&o.within, "within", 5*time.Second, "wish: how soon a lag should be gone, if the database bears it; 0 for as soon as possible")
	f.BoolVar(&o.throw, "throw", false, "ask Cassandra to refuse what is beyond its rate limit in place of delaying it")
	f.DurationVar(&o.session, "session", 45*time.Second, "how soon the group takes partitions from a process that died")
	f.DurationVar(&o.revoke, "revoke", 5*time.Second, "what a partition that goes to another process gets to end its writes")
	f.DurationVar(&o.drain, "drain", 10*time.Second, "the same at the end of the program")
	f.DurationVar(&o.every, "every", time.Second, "how often offsets are committed and a line is printed")
	f.StringVar(&o.metrics, "metrics", "", "HOST:PORT to serve /metrics at; if empty, none")
	f.BoolVar(&o.create, "create", false, "make the topics, keyspace and table if they are not there")
	f.BoolVar(&o.once, "once", false, "end when all is written")
	f.BoolVar(&o.inProcess, "standin", false, "start Kafka and Cassandra in this process, with 100,000 records")
	f.Int64Var(&o.produce, "produce", 0, "write so many made-up records to the topic before")
	f.IntVar(&o.size, "size", 120, "bytes of the note in each of them")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stderr)
		f.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, usage{err}
	}
	o.brokers = strings.Split(*brokers, ",")
	if o.once {
		o.within = 0
	}
	return o, o.check(f.Args())
}

// check says what is wrong with the flags.
func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return usage{fmt.Errorf("argument %q: there are flags only", rest[0])}
	case o.topic == "" || o.group == "":
		return usage{errors.New("-topic and -group must not be empty")}
	case o.dead == o.topic:
		return usage{fmt.Errorf("-dead %s: that is the topic which is read", o.dead)}
	case o.timeout < 10*time.Millisecond || o.every < 10*time.Millisecond || o.session < 100*time.Millisecond:
		return usage{errors.New("-timeout and -every must be at least 10ms, -session 100ms")}
	case o.size < 0 || o.size > 1<<19:
		return usage{fmt.Errorf("-size %d: want 0 to %d", o.size, 1<<19)}
	case o.most < 1 || o.window < 1 || o.bytes < 1:
		return usage{errors.New("-most, -window and -bytes must be at least 1")}
	case !(o.slowdown >= 1):
		return usage{errors.New("-slowdown must be at least 1")}
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is the program: 0 done, 1 failed, 2 wrong usage.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = start(ctx, o, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "kafka-cassandra:", err)
		if errors.As(err, new(usage)) {
			return 2
		}
		return 1
	}
	return 0
}

func start(ctx context.Context, o options, stdout io.Writer) error {
	if o.inProcess {
		stop, err := o.standin()
		if err != nil {
			return err
		}
		defer stop()
	}
	p, err := open(ctx, o, stdout)
	if err != nil {
		return err
	}
	defer p.close()
	if o.produce > 0 {
		if err := produce(ctx, o, partitions, 0, o.produce); err != nil {
			return err
		}
	}
	if o.metrics != "" {
		server := &http.Server{Addr: o.metrics, Handler: p.metrics(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
		go func() { // ends with Close
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				p.fatal(fmt.Errorf("-metrics %s: %w", o.metrics, err))
			}
		}()
		defer server.Close()
	}
	return p.run(ctx)
}

// standin starts Kafka and Cassandra in this process.
func (o *options) standin() (stop func(), err error) {
	addr, stopKafka, err := standin.Kafka(nil, partitions, o.topic)
	if err != nil {
		return nil, err
	}
	d, err := standin.Start(nil, standin.Knobs{})
	if err != nil {
		stopKafka()
		return nil, err
	}
	o.brokers, o.cassandra, o.produce, o.once, o.within = []string{addr}, d.Addr, 100_000, true, 0
	return func() { d.Stop(); stopKafka() }, nil
}
