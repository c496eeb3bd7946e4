package standin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/datastax/go-cassandra-native-protocol/datatype"
	"github.com/datastax/go-cassandra-native-protocol/message"
	"github.com/datastax/go-cassandra-native-protocol/primitive"

	"github.com/throttle-go/throttle/limit"
)

// Table is the table that each Database begins with.
const Table = "demo.readings"

// A Column is one of a table.
type Column struct {
	// Name is its name.
	Name string
	// Type is its type: text, timestamp, double, int, bigint or blob.
	Type string
	// Kind is its part in the primary key: partition_key, clustering or regular.
	Kind string
}

// Readings are the columns of Table.
var Readings = []Column{
	{"device", "text", "partition_key"},
	{"at", "timestamp", "clustering"},
	{"value", "double", "regular"},
	{"note", "text", "regular"},
}

var types = map[string]datatype.DataType{
	"text": datatype.Varchar, "timestamp": datatype.Timestamp, "double": datatype.Double,
	"int": datatype.Int, "bigint": datatype.Bigint, "blob": datatype.Blob,
}

// rows is a result of text columns.
func rows(names []string, rows ...message.Row) *message.RowsResult {
	return &message.RowsResult{Metadata: metadata(names), Data: rows}
}

func metadata(names []string) *message.RowsMetadata {
	m := &message.RowsMetadata{ColumnCount: int32(len(names))}
	for _, n := range names {
		m.Columns = append(m.Columns, &message.ColumnMetadata{Keyspace: "system_schema", Table: "columns", Name: n, Type: datatype.Varchar})
	}
	return m
}

var (
	insert   = regexp.MustCompile(`^INSERT INTO (\w+)\.(\w+) \(([\w, ]+)\) VALUES`)
	describe = regexp.MustCompile(`^SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = '(\w+)' AND table_name = '(\w+)'$`)
	schema   = []string{"column_name", "type", "kind"}
)

// prepare knows the two statements of the program. The text is its own number.
func (d *Database) prepare(query string) message.Message {
	p := &message.PreparedResult{
		PreparedQueryId: []byte(query), VariablesMetadata: &message.VariablesMetadata{}, ResultMetadata: &message.RowsMetadata{},
	}
	if describe.MatchString(query) {
		p.ResultMetadata = metadata(schema)
		return p
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	columns, refusal := d.into(query)
	if refusal != nil {
		return refusal
	}
	into := insert.FindStringSubmatch(query)
	p.VariablesMetadata.PkIndices = []uint16{0}
	for _, name := range strings.Split(into[3], ", ") {
		at := -1
		for i, c := range columns {
			if c.Name == name {
				at = i
			}
		}
		if at < 0 {
			return &message.Invalid{ErrorMessage: "Undefined column name " + name + " in table " + into[1] + "." + into[2]}
		}
		p.VariablesMetadata.Columns = append(p.VariablesMetadata.Columns, &message.ColumnMetadata{Keyspace: into[1], Table: into[2], Name: name, Type: types[columns[at].Type]})
	}
	return p
}

// into returns the columns of the table that a statement writes to. The caller
// holds the lock.
func (d *Database) into(query string) (columns []Column, refusal message.Message) {
	m := insert.FindStringSubmatch(query)
	if m == nil {
		return nil, &message.Invalid{ErrorMessage: "not in this stand-in: " + query}
	}
	columns, ok := d.tables[m[1]+"."+m[2]]
	if !ok {
		return nil, &message.Invalid{ErrorMessage: "table " + m[2] + " does not exist"}
	}
	return columns, nil
}

var table = regexp.MustCompile(`^CREATE TABLE IF NOT EXISTS (\w+\.\w+) \(`)

// create makes a table, with the columns of Readings whatever they are to be. It
// needs no keyspace.
func (d *Database) create(query string) message.Message {
	if m := table.FindStringSubmatch(query); m != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.tables[m[1]] == nil {
			d.tables[m[1]] = Readings
		}
	}
	return &message.VoidResult{}
}

// columns answers what the columns of a table are.
func (d *Database) columns(query string) message.Message {
	of := describe.FindStringSubmatch(query)
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []message.Row
	for _, c := range d.tables[of[1]+"."+of[2]] {
		all = append(all, message.Row{[]byte(c.Name), []byte(c.Type), []byte(c.Kind)})
	}
	return rows(schema, all...)
}

// write waits for its turn and as long as the write takes, and keeps the row. It
// returns nil if the server has ended.
func (d *Database) write(query string, o *message.QueryOptions, s *server) message.Message {
	d.mu.Lock()
	_, gone := d.into(query)
	d.mu.Unlock()
	if gone != nil {
		return gone
	}
	key, row, err := decode(o)
	if err != nil {
		return &message.Invalid{ErrorMessage: err.Error()}
	}
	end, refusal := d.admit(time.Now(), key)
	if end.IsZero() {
		return refusal
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ended:
		return nil
	}
	if !s.thawed() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Inside--
	if refusal == nil {
		d.keep(key, row)
		return &message.VoidResult{}
	}
	return refusal
}

// admit decides on a write: when it is answered, the zero time for at once, and
// what the answer is unless it is served.
func (d *Database) admit(now time.Time, k Key) (end time.Time, refusal message.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.knobs.Limit != (limit.Limit{}) {
		s, verdict := limit.Take(d.bucket, now, limit.Ask{Key: "writes", Limit: d.knobs.Limit, N: 1})
		if !verdict.OK {
			d.stats.Overloaded++
			return end, &message.Overloaded{ErrorMessage: "Request breached global limit of requests a second"}
		}
		d.bucket = s
	}
	line, service := d.node(k.Device)
	line.widen(now, d.width())
	if d.knobs.Queue > 0 && d.stats.Inside >= d.knobs.Queue+d.width() {
		d.stats.Overloaded++
		return end, &message.Overloaded{ErrorMessage: "the queue is full"}
	}
	d.stats.Inside++
	d.stats.Most = max(d.stats.Most, d.stats.Inside)
	if p := d.knobs.Patience; p > 0 && line.begins(now).Sub(now) > p {
		d.stats.TimedOut++
		return now.Add(p), &message.WriteTimeout{
			ErrorMessage: "Operation timed out - received only 0 responses.",
			Consistency:  primitive.ConsistencyLevelLocalQuorum, BlockFor: 1, WriteType: primitive.WriteTypeSimple,
		}
	}
	end = line.enter(now, service)
	if d.knobs.Fails != nil && d.knobs.Fails(k.Device, k.At) {
		d.stats.Failed++
		return end, &message.ServerError{ErrorMessage: "this row fails each time"}
	}
	return end, nil
}

// keep writes a row; of two writes the one of the later time wins, whichever came
// first. The caller holds the lock.
func (d *Database) keep(k Key, r Row) {
	old := d.rows[k]
	r.Writes = old.Writes + 1
	if r.Written < old.Written {
		r.Value, r.Note, r.Written = old.Value, old.Note, old.Written
	}
	d.rows[k] = r
	d.stats.Written++
}

// decode reads what is bound to the statement of the program.
func decode(o *message.QueryOptions) (k Key, r Row, err error) {
	v := o.PositionalValues
	if len(v) != len(Readings) || len(v[1].Contents) != 8 || len(v[2].Contents) != 8 {
		return k, r, fmt.Errorf("want %d values, of which the second and third have 8 bytes", len(Readings))
	}
	k = Key{Device: string(v[0].Contents), At: time.UnixMilli(int64(binary.BigEndian.Uint64(v[1].Contents))).UTC()}
	r = Row{Value: math.Float64frombits(binary.BigEndian.Uint64(v[2].Contents)), Note: string(bytes.Clone(v[3].Contents))}
	if o.DefaultTimestamp != nil {
		r.Written = *o.DefaultTimestamp
	}
	return k, r, nil
}
