package standin

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/datastax/go-cassandra-native-protocol/datatype"
	"github.com/datastax/go-cassandra-native-protocol/frame"
	"github.com/datastax/go-cassandra-native-protocol/message"
	"github.com/datastax/go-cassandra-native-protocol/primitive"
)

// version is that of the native protocol: the last without segments around its
// frames. Drivers that begin with a higher one are told, and go down to it.
const version = primitive.ProtocolVersion4

// server is a Database while it listens. The codec is that of
// go-cassandra-native-protocol; its own CqlServer closes connections with a data
// race.
type server struct {
	db     *Database
	listen net.Listener
	ended  chan struct{} // closed by close
	all    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

func (s *server) run() {
	for {
		c, err := s.listen.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.open[c] = true
		s.mu.Unlock()
		s.all.Go(func() { s.serve(c) })
	}
}

// close closes all connections, gives up what is in work, and returns when that
// is done.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	close(s.ended)
	s.listen.Close()
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
}

// serve answers the requests of a connection. Each write has a goroutine of its
// own, as many as the driver has streams.
func (s *server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	codec := frame.NewRawCodec()
	in := bufio.NewReaderSize(c, 64<<10)
	var out sync.Mutex // of c
	reply := func(h *frame.Header, m message.Message) {
		if m == nil {
			return
		}
		var b bytes.Buffer
		if codec.EncodeFrame(frame.NewFrame(version, h.StreamId, m), &b) != nil {
			c.Close()
			return
		}
		out.Lock()
		defer out.Unlock()
		_, _ = c.Write(b.Bytes()) // if it fails, so does the next read
	}
	for {
		raw, err := codec.DecodeRawFrame(in)
		if err != nil {
			return
		}
		if raw.Header.Version != version {
			raw.Header.StreamId = 0 // where gocql takes it for a reason to try the next
			reply(raw.Header, &message.ProtocolError{ErrorMessage: fmt.Sprintf("Invalid or unsupported protocol version (%d); supported versions are (4/v4)", raw.Header.Version)})
			continue
		}
		f, err := codec.ConvertFromRawFrame(raw)
		if err != nil {
			reply(raw.Header, &message.ProtocolError{ErrorMessage: err.Error()})
			continue
		}
		if !s.thawed() {
			return
		}
		if m, ok := f.Body.Message.(*message.Execute); ok && !strings.HasPrefix(string(m.QueryId), "SELECT") {
			s.all.Go(func() { reply(f.Header, s.db.write(string(m.QueryId), m.Options, s)) })
			continue
		}
		reply(f.Header, s.db.answer(f.Body.Message))
	}
}

// thawed waits while the Database is frozen, and reports whether it goes on.
func (s *server) thawed() bool {
	s.db.mu.Lock()
	thawed := s.db.thawed
	s.db.mu.Unlock()
	select {
	case <-thawed:
		return true
	case <-s.ended:
		return false
	}
}

// answer answers what is no write.
func (d *Database) answer(m message.Message) message.Message {
	switch m := m.(type) {
	case *message.Options:
		return &message.Supported{Options: map[string][]string{"CQL_VERSION": {"3.4.7"}}}
	case *message.Startup, *message.Register:
		return &message.Ready{}
	case *message.Prepare:
		return d.prepare(m.Query)
	case *message.Execute:
		return d.columns(string(m.QueryId))
	case *message.Query:
		if strings.HasPrefix(m.Query, "CREATE ") {
			return d.create(m.Query)
		}
		return system(m.Query)
	}
	return &message.ProtocolError{ErrorMessage: fmt.Sprintf("not in this stand-in: %v", m)}
}

// system answers what a driver asks to find its way.
func system(query string) message.Message {
	const id = "c0d1d21e-bb01-4196-86db-bc317bc1796a"
	switch {
	case strings.HasPrefix(query, "SELECT schema_version FROM system.local"):
		return rows([]string{"schema_version"}, message.Row{[]byte(id)})
	case strings.HasPrefix(query, "SELECT * FROM system.local"):
		r := rows([]string{"host_id", "data_center", "rack", "release_version", "partitioner", "cluster_name"},
			message.Row{[]byte(id), []byte("datacenter1"), []byte("rack1"), []byte("5.0.0"), []byte("org.apache.cassandra.dht.Murmur3Partitioner"), []byte("standin")})
		m := r.Metadata
		m.ColumnCount++
		m.Columns = append(m.Columns, &message.ColumnMetadata{Keyspace: "system", Table: "local", Name: "tokens", Type: datatype.NewSet(datatype.Varchar)})
		r.Data[0] = append(r.Data[0], set("-9223372036854775808"))
		return r
	case strings.Contains(query, "system.peers"):
		return rows([]string{"host_id"}) // a driver refuses a result without columns
	case strings.Contains(query, "system_schema"):
		return rows([]string{"keyspace_name"})
	}
	return &message.Invalid{ErrorMessage: "not in this stand-in: " + query}
}

// set encodes a set of one text.
func set(text string) []byte {
	return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1), uint32(len(text))), text...)
}
