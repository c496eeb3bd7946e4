package signal

import (
	"math"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// This file reads the details of a gRPC status, a google.rpc.Status in the
// trailer grpc-status-details-bin: what JSON has in error.details, in the wire
// format of Protocol Buffers (protobuf.dev/programming-guides/encoding). Three
// messages are looked for, by the numbers of their fields:
//
//	Status       { repeated Any details = 3 }
//	Any          { string type_url = 1; bytes value = 2 }
//	RetryInfo    { Duration retry_delay = 1 }        Duration { int64 seconds = 1; int32 nanos = 2 }
//	QuotaFailure { repeated Violation violations = 1 } Violation { string subject = 1; string description = 2; string quota_metric = 4 }

// message is a message in wire format that was not checked.
type message []byte

// next is the first field of a message: its number, its value if it is a
// varint, its bytes if it has a length, and what comes behind it. ok is false at
// the end, and where the message is malformed.
func (m message) next() (number int, value uint64, data, rest message, ok bool) {
	key, rest, ok := m.varint()
	if !ok {
		return 0, 0, nil, nil, false
	}
	skip := uint64(0)
	switch key & 7 {
	case 0:
		value, rest, ok = rest.varint()
	case 1:
		skip = 8
	case 2:
		skip, rest, ok = rest.varint()
	case 5:
		skip = 4
	default:
		ok = false
	}
	if !ok || skip > uint64(len(rest)) {
		return 0, 0, nil, nil, false
	}
	return int(min(key>>3, math.MaxInt32)), value, rest[:skip], rest[skip:], true
}

func (m message) varint() (v uint64, rest message, ok bool) {
	for i := 0; i < len(m) && i < 10; i++ {
		v |= uint64(m[i]&0x7f) << (7 * i)
		if m[i] < 0x80 {
			return v, m[i+1:], true
		}
	}
	return 0, nil, false
}

// bytes is the first field of that number that has a length.
func (m message) bytes(number int) message {
	for {
		n, _, data, rest, ok := m.next()
		if !ok || n == number && data != nil {
			return data
		}
		m = rest
	}
}

// number is the first field of that number as a varint.
func (m message) number(number int) uint64 {
	for {
		n, value, _, rest, ok := m.next()
		if !ok || n == number {
			return value
		}
		m = rest
	}
}

// detail is the value of the detail of that type in a trailer's text.
func detail(text, name string) message {
	for m := decoded(text); ; {
		n, _, packed, rest, ok := m.next()
		if !ok {
			return nil
		}
		if n == 3 && strings.HasSuffix(string(packed.bytes(1)), "/google.rpc."+name) {
			return packed.bytes(2)
		}
		m = rest
	}
}

// retryDelay is the delay of a RetryInfo.
func retryDelay(text string) pace.Opt[time.Duration] {
	info := detail(text, "RetryInfo")
	if info == nil {
		return pace.Opt[time.Duration]{}
	}
	d := info.bytes(1)
	return pace.Some(bounded(float64(int64(d.number(1)))*1e9 + float64(int32(d.number(2)))))
}

// violation is a text of the first violation of a QuotaFailure.
func violation(text string, number int) string {
	what := detail(text, "QuotaFailure").bytes(1).bytes(number)
	return strings.ToValidUTF8(string(what[:min(len(what), maxText)]), "")
}

// decoded is the bytes of standard base64, padded or not; none where it is
// malformed or longer than any field that is read.
func decoded(text string) (m message) {
	if len(text) > maxField {
		return nil
	}
	bits, n := uint(0), 0
	for _, c := range []byte(strings.TrimRight(text, "=")) {
		v := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", c)
		if v < 0 {
			return nil
		}
		bits = bits<<6 | uint(v)
		if n += 6; n >= 8 {
			n -= 8
			m = append(m, byte(bits>>n))
		}
	}
	return m
}
