package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/throttle-go/throttle"
)

// reading is what a record holds, as JSON, and what becomes a row.
type reading struct {
	Device string  `json:"device"`
	At     int64   `json:"at"` // milliseconds since 1970
	Value  float64 `json:"value"`
	Note   string  `json:"note,omitempty"`
}

// columns are those of the table that the program needs.
var columns = map[string]string{"device": "text", "at": "timestamp", "value": "double", "note": "text"}

// key are the columns of the primary key. Each record has a row of its own, or
// replaces one with the same key, so writing a record twice changes nothing.
var key = map[string]string{"device": "partition_key", "at": "clustering"}

// createTable is the statement that makes the table.
const createTable = "CREATE TABLE IF NOT EXISTS %s (device text, at timestamp, value double, note text, PRIMARY KEY (device, at))"

// database is where the rows go.
type database struct {
	session         *gocql.Session
	keyspace, table string
	insert          string
}

// cluster are the driver's settings that matter for a stream of writes.
func cluster(o options) (*gocql.ClusterConfig, error) {
	host, text, err := net.SplitHostPort(o.cassandra)
	if err != nil {
		return nil, fmt.Errorf("-cassandra %q: want HOST:PORT", o.cassandra)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("-cassandra %q: want a number as the port", o.cassandra)
	}
	c := gocql.NewCluster(host)
	c.Port = port
	c.Consistency = gocql.LocalQuorum

	// The driver holds each frame back for 200 µs, to send several at once, and
	// the timer is late by most of a millisecond. That costs a factor of 11 where
	// one write at a time is in flight, and changes little where 64 are. Without
	// it the latency that the concurrency limit learns from is the database's.
	c.WriteCoalesceWaitTime = 0
	c.ProtoVersion = o.protocol

	// One try: the worker retries, when the limit lets it. A retry policy or a
	// speculative execution here would multiply the load on a node in trouble,
	// unseen by the limit.
	c.RetryPolicy = nil
	// Beyond it a write is given up here, and may be applied all the same. The
	// default is 11 s. It must be longer than the write_request_timeout of the
	// server (2 s) for its own answer to arrive, or well above the latency.
	c.Timeout = o.timeout
	c.ConnectTimeout = 5 * time.Second
	// How soon a node that was down is tried again; the defaults are a minute, and
	// a second between the tries of one round.
	c.ReconnectInterval = 250 * time.Millisecond
	c.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 3, Interval: 250 * time.Millisecond}
	// A connection carries 32,767 requests at once; what has timed out keeps its
	// place until the answer comes.
	c.NumConns = 2
	// A node that owns the row, without a hop from another one.
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	if dial := o.dial; dial != nil || o.throw {
		if dial == nil {
			dial = new(net.Dialer).DialContext
		}
		c.Dialer = cqlDialer{dial, o.throw}
	}
	return c, nil
}

var name = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// connect connects to the database and checks the table.
func connect(ctx context.Context, o options) (*database, error) {
	d := new(database)
	var ok bool
	if d.keyspace, d.table, ok = strings.Cut(o.table, "."); !ok || !name.MatchString(d.keyspace) || !name.MatchString(d.table) {
		return nil, usage{fmt.Errorf("-table %q: want KEYSPACE.TABLE, in small letters, digits and _", o.table)}
	}
	c, err := cluster(o)
	if err != nil {
		return nil, usage{err}
	}
	if o.create {
		if err := d.create(ctx, *c); err != nil {
			return nil, err
		}
	}
	if d.session, err = session(c); err != nil {
		return nil, err
	}
	d.insert = fmt.Sprintf("INSERT INTO %s.%s (device, at, value, note) VALUES (?, ?, ?, ?)", d.keyspace, d.table)
	if err = d.check(ctx); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *database) close() { closed(d.session) }

// closed closes a session. The driver leaves a goroutine behind where that is done
// before its heartbeat has begun.
func closed(s *gocql.Session) {
	time.Sleep(10 * time.Millisecond)
	s.Close()
}

func session(c *gocql.ClusterConfig) (*gocql.Session, error) {
	s, err := c.CreateSession()
	if err != nil {
		return nil, fmt.Errorf("no Cassandra at %s port %d: %w; is it running, and is that the port of the native protocol?", c.Hosts[0], c.Port, err)
	}
	return s, nil
}

// create makes the keyspace and the table, for trials on one node.
func (d *database) create(ctx context.Context, c gocql.ClusterConfig) error {
	c.Timeout = 30 * time.Second                                    // changes of the schema take longer than writes
	c.PoolConfig.HostSelectionPolicy = gocql.RoundRobinHostPolicy() // one that knows tokens is of one session
	s, err := session(&c)
	if err != nil {
		return err
	}
	defer closed(s)
	for _, statement := range []string{
		"CREATE KEYSPACE IF NOT EXISTS " + d.keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		fmt.Sprintf(createTable, d.keyspace+"."+d.table),
	} {
		if err := s.Query(statement).ExecContext(ctx); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// check compares the table with what the program writes. An error is a *schema,
// unless the database does not answer.
func (d *database) check(ctx context.Context) error {
	found, err := d.describe(ctx)
	if err != nil {
		return fmt.Errorf("asking Cassandra for the columns of %s.%s: %w", d.keyspace, d.table, err)
	}
	if len(found) == 0 {
		return &schema{fmt.Sprintf("table %s.%s is not there: create it, or start once with -create: "+createTable, d.keyspace, d.table, d.keyspace+"."+d.table)}
	}
	var wrong []string
	for column, want := range columns {
		switch c, ok := found[column]; {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("column %s is not there, want one of type %s", column, want))
		case c.kind != want:
			wrong = append(wrong, fmt.Sprintf("column %s is of type %s, want %s", column, c.kind, want))
		case key[column] != "" && c.part != key[column]:
			wrong = append(wrong, fmt.Sprintf("column %s is %s, want %s, as a write that is repeated must change nothing", column, c.part, key[column]))
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		return &schema{fmt.Sprintf("table %s.%s: %s", d.keyspace, d.table, strings.Join(wrong, "; "))}
	}
	return nil
}

// column is the type of a column and its part in the primary key.
type column struct{ kind, part string }

func (d *database) describe(ctx context.Context) (found map[string]column, err error) {
	rows := d.session.Query(fmt.Sprintf("SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = '%s' AND table_name = '%s'", d.keyspace, d.table)).IterContext(ctx)
	found = map[string]column{}
	var name string
	var c column
	for rows.Scan(&name, &c.kind, &c.part) {
		found[name] = c
	}
	return found, rows.Close()
}

// schema is a table that is not as it must be: no record is at fault, and none
// can be written.
type schema struct{ text string }

func (s *schema) Error() string { return s.text }

// write writes a record. The error is nil, or has a class for the Throttle: see
// classify.
func (d *database) write(ctx context.Context, value []byte, at time.Time) error {
	var r reading
	if err := json.Unmarshal(value, &r); err != nil {
		return throttle.Permanent(fmt.Errorf("the record is no reading: %w", err))
	}
	if r.Device == "" {
		return throttle.Permanent(errors.New("the record is no reading: it has no device"))
	}
	// The time of the record, not of the write: of two records with the same key
	// the later wins, even if a write of the earlier, given up as timed out, is
	// applied last. Kafka's times are milliseconds: of two records of a key in the
	// same one Cassandra keeps, column by column, the greater value, so that the
	// row may be a mixture of both.
	q := d.session.Query(d.insert, r.Device, time.UnixMilli(r.At), r.Value, r.Note).WithTimestamp(at.UnixMicro())
	return d.classify(ctx, q.ExecContext(ctx))
}

// timedOut is an error after which a write may be applied all the same, now or
// later. The driver's own do not say so in Go's usual way.
type timedOut struct{ error }

func (timedOut) Timeout() bool   { return true }
func (e timedOut) Unwrap() error { return e.error }

// classify tells the Throttle and the Worker what an error means.
//
//	Overloaded                      throttled: retried, and slower from now on
//	no connection, time-out,        failed: retried; after a time-out, and where a
//	unavailable, server error       connection broke, the write may be applied
//	the table is not as it must be  a *schema: the program ends
//	any other refusal               the record's fault: to the dead letters
func (d *database) classify(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err // cancelled or out of time: nobody's fault
	}
	var e gocql.RequestError
	if !errors.As(err, &e) {
		var marshal gocql.MarshalError
		if errors.As(err, &marshal) {
			return d.whose(ctx, err)
		}
		if errors.Is(err, gocql.ErrTimeoutNoResponse) {
			err = timedOut{err}
		}
		return throttle.Failed(err)
	}
	switch e.Code() {
	case gocql.ErrCodeOverloaded:
		return throttle.Throttled(err, 0)
	case gocql.ErrCodeWriteTimeout:
		return throttle.Failed(timedOut{err})
	case gocql.ErrCodeInvalid, gocql.ErrCodeSyntax, gocql.ErrCodeConfig, gocql.ErrCodeUnprepared:
		return d.whose(ctx, err)
	case gocql.ErrCodeUnauthorized, gocql.ErrCodeCredentials:
		return &schema{fmt.Sprintf("Cassandra refuses writes to %s.%s: %v", d.keyspace, d.table, err)}
	}
	return throttle.Failed(err)
}

// whose finds out whether the table or the record is at fault.
func (d *database) whose(ctx context.Context, err error) error {
	var s *schema
	switch found := d.check(ctx); {
	case errors.As(found, &s):
		return s
	case found != nil:
		return throttle.Failed(errors.Join(err, found))
	}
	return throttle.Permanent(err)
}
