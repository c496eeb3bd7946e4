package throttlehttp_test

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"sync"
)

// Frames of HTTP/2 (RFC 9113), as many as an attack needs: net/http sends no
// malformed or untimely ones.
const (
	frameData    = 0
	frameHeaders = 1
	frameReset   = 3
	frameSetting = 4
	framePing    = 6
	frameGoAway  = 7

	flagEnd     = 1 // of the stream; of settings and pings: an acknowledgement
	flagHeaders = 4 // are complete

	codeInternal = 2
	codeRefused  = 7
	codeCancel   = 8
	codeCalm     = 11 // ENHANCE_YOUR_CALM

	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// framer reads and writes frames. Writes of several goroutines do not mix; they
// are queued, as a net.Pipe holds nothing.
type framer struct {
	net.Conn
	queue chan []byte
	once  sync.Once
	over  chan struct{}
	last  uint32 // stream that is served, once goAway has said so
}

func newFramer(c net.Conn) *framer {
	f := &framer{Conn: c, queue: make(chan []byte, 10_000), over: make(chan struct{}), last: math.MaxUint32}
	go func() {
		defer c.Close()
		for {
			select {
			case b := <-f.queue:
				if b == nil {
					return // all before it is written
				}
				if _, err := c.Write(b); err != nil {
					return
				}
			case <-f.over:
				return
			}
		}
	}()
	return f
}

// write queues a frame.
func (f *framer) write(kind, flags byte, stream uint32, payload ...byte) {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	b = append(binary.BigEndian.AppendUint32(b, stream), payload...)
	select {
	case f.queue <- b:
	case <-f.over:
	}
}

// goAway says that streams after last are not served.
func (f *framer) goAway(last, code uint32) {
	f.last = last
	f.write(frameGoAway, 0, 0, append(word(last), word(code)...)...)
}

// hangUp closes the connection once all that is queued is written.
func (f *framer) hangUp() {
	select {
	case f.queue <- nil:
	case <-f.over:
	}
}

// end closes the connection at once.
func (f *framer) end() {
	f.once.Do(func() { close(f.over) })
	f.Conn.Close()
}

// read returns the next frame.
func (f *framer) read() (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(f.Conn, head[:]); err != nil {
		return
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(f.Conn, payload)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]) &^ (1 << 31), payload, err
}

func word(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// literal is a header field in HPACK (RFC 7541, 6.2.2), not indexed, not coded.
func literal(name, value string) []byte {
	b := append([]byte{0, byte(len(name))}, name...)
	return append(append(b, byte(len(value))), value...)
}

// status is the field :status.
func status(code string) []byte { return append([]byte{8, byte(len(code))}, code...) }
