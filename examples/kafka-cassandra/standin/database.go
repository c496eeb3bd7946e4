// Package standin is Kafka and Cassandra in this process, for tests and trials
// without a JVM: kfake of franz-go, and the native protocol of Cassandra before a
// queue whose speed, width, bounds and faults are set while it runs.
//
// It differs from a real node: it has no collector's pauses of its own, no JIT
// to warm up, no disk and no neighbours, and it does not know the option
// THROW_ON_OVERLOAD. What it says of throughput holds for [Knobs] alone.
package standin

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Knobs are how a Database works. The zero value is one that serves 16 writes at
// once, each in 1 ms: 16,000 a second.
type Knobs struct {
	// Service is how long one write takes. If zero, 1 ms.
	Service time.Duration
	// Width is how many writes are served at once. If zero, 16.
	Width int
	// Nodes is how many nodes there are behind the one that is connected to. Each
	// has Width and Service of its own, and its share of the devices. If zero, 1.
	Nodes int
	// Slow is how many times as long a write takes at the first node. If zero, 1.
	Slow int
	// Queue bounds the writes that wait; beyond it the answer is Overloaded. If
	// zero, there is no bound.
	Queue int
	// Limit is how many writes start in a period; beyond it the answer is
	// Overloaded, as that of a node which is to throw on overload. If zero,
	// there is none.
	Limit limit.Limit
	// Patience bounds how long a write waits in the queue. Beyond it the answer
	// is WriteTimeout, and nothing is written. If zero, a write waits as long as
	// it takes: the work is done for callers that have gone, too.
	Patience time.Duration
	// Fails says which rows cannot be written: the answer is a ServerError, each
	// time. If nil, none.
	Fails func(device string, at time.Time) bool
}

// A Row is one that was written.
type Row struct {
	// Value and Note are those of the write of the latest Written, which is the
	// time that the client gave to it, in microseconds.
	Value   float64
	Note    string
	Written int64
	// Writes is how often it was written.
	Writes int
}

// Key is the primary key of a Row.
type Key struct {
	Device string
	At     time.Time
}

// Stats count what a Database has done.
type Stats struct {
	// Written, Overloaded, TimedOut and Failed are the answers to writes.
	Written, Overloaded, TimedOut, Failed int64
	// Inside is how many writes wait or are served, and Most the most that ever
	// were since Stats was called last.
	Inside, Most int
}

// A Database answers version 4 of the native protocol of Cassandra, for the tables
// that it has. Its methods are safe for concurrent use.
type Database struct {
	// Addr is its host and port.
	Addr string

	network *Network

	mu     sync.Mutex
	server *server       // nil: stopped
	thawed chan struct{} // closed unless it is frozen
	froze  time.Time
	tables map[string][]Column // by KEYSPACE.TABLE
	rows   map[Key]Row
	knobs  Knobs
	lines  []line // one for each node
	bucket limit.State
	stats  Stats
}

// Start starts a Database with the table [Readings], on the loopback if the
// network is nil. Stop it in the end.
func Start(n *Network, k Knobs) (*Database, error) {
	d := &Database{network: n, tables: map[string][]Column{Table: Readings}, rows: map[Key]Row{}, knobs: k, thawed: make(chan struct{})}
	close(d.thawed)
	addr := "127.0.0.1:0"
	if n != nil {
		addr = "127.0.0.1:9042"
	}
	l, err := d.open(addr)
	if err != nil {
		return nil, fmt.Errorf("standin: starting Cassandra: %w", err)
	}
	if d.Addr = addr; n == nil {
		d.Addr = l.Addr().String()
	}
	d.listen(l)
	return d, nil
}

func (d *Database) open(addr string) (net.Listener, error) {
	if d.network != nil {
		return d.network.Listen("tcp", addr)
	}
	return net.Listen("tcp", addr)
}

// Restart starts a Database that was stopped, on its address and with its rows.
func (d *Database) Restart() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server != nil {
		return errors.New("standin: Cassandra runs already")
	}
	l, err := d.open(d.Addr)
	if err != nil {
		return err
	}
	d.listen(l)
	return nil
}

// listen begins to serve. The caller holds the lock, or is the only one.
func (d *Database) listen(l net.Listener) {
	d.server, d.lines, d.stats.Inside = &server{db: d, listen: l, ended: make(chan struct{}), open: map[net.Conn]bool{}}, nil, 0
	d.server.all.Go(d.server.run)
}

// Stop closes all connections and gives up what is in work, as a SIGKILL would.
// The rows stay.
func (d *Database) Stop() {
	d.mu.Lock()
	s := d.server
	d.server = nil
	d.mu.Unlock()
	if s != nil {
		s.close()
	}
	d.Thaw()
}

// Set changes how it works from now on. What waits has its time already.
func (d *Database) Set(k Knobs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.knobs = k
}

// Pause serves nothing for so long, as a collector's pause; connections stay.
func (d *Database) Pause(how time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pause(time.Now(), how)
}

// Freeze answers nothing until Thaw, as after a SIGSTOP.
func (d *Database) Freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.thawed:
		d.thawed, d.froze = make(chan struct{}), time.Now()
	default:
	}
}

// Thaw goes on after Freeze.
func (d *Database) Thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.thawed:
	default:
		d.pause(d.froze, time.Since(d.froze))
		close(d.thawed)
	}
}

// Alter sets the columns of a table, "keyspace.table", or drops it if there are
// none.
func (d *Database) Alter(table string, columns ...Column) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.tables, table); len(columns) > 0 {
		d.tables[table] = columns
	}
}

// Rows returns how many rows there are.
func (d *Database) Rows() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.rows)
}

// Row returns one row.
func (d *Database) Row(k Key) (r Row, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k.At = k.At.UTC()
	r, ok = d.rows[k]
	return r, ok
}

// Stats returns what was done so far.
func (d *Database) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	d.stats.Most = d.stats.Inside
	return s
}

// pause lets no node work from then on for so long. The caller holds the lock.
func (d *Database) pause(from time.Time, how time.Duration) {
	for i := range d.nodes() {
		l := &d.lines[i]
		l.widen(from, d.width())
		l.pause(from, how)
	}
}

// nodes returns how many there are, with a line for each. The caller holds the
// lock.
func (d *Database) nodes() int {
	n := max(d.knobs.Nodes, 1)
	for len(d.lines) < n {
		d.lines = append(d.lines, line{})
	}
	return n
}

// node returns the line of the node that has a device, and how long one write
// takes there. The caller holds the lock.
func (d *Database) node(device string) (*line, time.Duration) {
	h := fnv.New32a()
	io.WriteString(h, device)
	i := int(h.Sum32() % uint32(d.nodes()))
	service := d.service()
	if i == 0 {
		service *= time.Duration(max(d.knobs.Slow, 1))
	}
	return &d.lines[i], service
}

func (d *Database) width() int {
	if d.knobs.Width > 0 {
		return d.knobs.Width
	}
	return 16
}

func (d *Database) service() time.Duration {
	if d.knobs.Service > 0 {
		return d.knobs.Service
	}
	return time.Millisecond
}
