package recent

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// A record is one request and how it was decided:
//
//	8 bytes  the time, in microseconds since 1970
//	1        flags
//	1        the number of its fields, see Decisions.fields
//	16       the address, if it has one
//	then     method, host, path, encoded path: each its length and its bytes
//	then     the client and each of the fields: one byte that says how it is kept, and
//	         nothing, its length and bytes, or 8 bytes of a hash
//	then     the rule that decided
const (
	passed = 1 << iota
	hasAddress
	isBefore // of phase before
	isAfter
)

const (
	missing = iota
	shown
	hashed
)

// encode appends a record of e to b. It is not ok if that would be too long.
func (v *view) encode(b []byte, seed maphash.Seed, at time.Time, e *admit.Event) (_ []byte, ok bool) {
	q := &e.Request.Request
	if len(q.Method)+len(q.Host)+len(q.Path)+len(q.RawPath) > maxRecord/2 {
		return b, false
	}
	flags := flagsOf(e)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.UnixMicro()))
	if q.Address.IsValid() {
		a := v.address(seed, q.Address).As16()
		b = append(append(b, flags|hasAddress, byte(v.number)), a[:]...)
	} else {
		b = append(b, flags, byte(v.number))
	}
	for _, text := range [...]string{q.Method, q.Host, q.Path, q.RawPath} {
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	b = v.encodeValue(b, seed, "client", q.Client)
	for i, name := range v.fields {
		value := ""
		if q.Header != nil {
			value = q.Header(name)
		}
		b = v.encodeValue(b, seed, v.parts[i], value)
	}
	b = append(append(b, byte(len(e.Answer.Rule))), e.Answer.Rule...)
	return b, len(b) <= maxRecord
}

func flagsOf(e *admit.Event) (flags byte) {
	if e.Answer.OK {
		flags |= passed
	}
	switch e.Request.Phase {
	case rules.Before:
		flags |= isBefore
	case rules.After:
		flags |= isAfter
	}
	return flags
}

// encodeValue appends a value of a part.
func (v *view) encodeValue(b []byte, seed maphash.Seed, part, value string) []byte {
	switch {
	case value == "":
		return append(b, missing)
	case len(value) <= 64 && v.shows(part, value):
		return append(append(b, shown, byte(len(value))), value...)
	}
	return binary.LittleEndian.AppendUint64(append(b, hashed), maphash.String(seed, value))
}

// request is a record that was read.
type request struct {
	at     time.Time
	passed bool
	rule   string
	rules.Request
	values []kept // of the client, and of each field
	fields int    // the number of its fields
}

// kept is a value as it was kept.
type kept struct {
	how  byte
	text string
	hash uint64
}

// decode reads a record. All of it is copied.
func decode(b []byte, fields [][]string) (r request) {
	next := func(n int) []byte { out := b[:n]; b = b[n:]; return out }
	text := func() string { return string(next(int(binary.LittleEndian.Uint16(next(2))))) }
	r.at = time.UnixMicro(int64(binary.LittleEndian.Uint64(next(8)))).UTC()
	flags := next(1)[0]
	r.fields = int(next(1)[0])
	r.passed = flags&passed != 0
	if flags&isBefore != 0 {
		r.Phase = rules.Before
	} else if flags&isAfter != 0 {
		r.Phase = rules.After
	}
	if flags&hasAddress != 0 {
		r.Address = netip.AddrFrom16([16]byte(next(16))).Unmap()
	}
	r.Now, r.Method, r.Host, r.Path, r.RawPath = r.at, text(), text(), text(), text()
	for range 1 + len(fields[r.fields]) {
		k := kept{how: next(1)[0]}
		switch k.how {
		case shown:
			k.text = string(next(int(next(1)[0])))
		case hashed:
			k.hash = binary.LittleEndian.Uint64(next(8))
		}
		r.values = append(r.values, k)
	}
	r.rule = string(next(int(next(1)[0])))
	return r
}

// record keeps a request, unless it was no decision of the limits alone: what a
// Shedder refused, or a bound on the requests in flight, would depend on how long
// requests took. Descriptors are not kept: any of their values may be a secret.
func (r *Decisions) record(e *admit.Event, at time.Time) {
	v := r.view.Load()
	if v == nil || e.Request.Domain != "" || e.Verdict == admit.Undecided || e.Err != nil || e.Answer.Reason == rules.Busy || e.Answer.Reason == rules.Away {
		r.leftOut.Add(1)
		return
	}
	var buffer [maxRecord]byte
	b, ok := v.encode(buffer[:0], r.seed, at, e)
	if !ok {
		r.leftOut.Add(1)
		return
	}
	r.ring.add(b)
}

// Prepare reads the version in use, to keep what it looks at in requests. Call it after
// each swap: it takes as long as to parse the rules, and requests are kept as the version
// before looks at them meanwhile. Before the first call none are kept, but counted.
func (r *Decisions) Prepare(live *rules.Live) {
	r.looking.Lock()
	defer r.looking.Unlock()
	c, v := live.Load(), r.view.Load() // with the lock held, so that the last call has the last version
	if c == nil || v != nil && v.of == c {
		return
	}
	v = viewOf(c)
	v.literals = nil // for what-if alone
	r.number(v)
	r.view.Store(v)
}

// number numbers the fields of a view; the lock for views is held.
func (r *Decisions) number(v *view) {
	var all [][]string
	if known := r.fields.Load(); known != nil {
		all = *known
	}
	v.number = slices.IndexFunc(all, func(f []string) bool { return slices.Equal(f, v.fields) })
	if v.number < 0 && len(all) > 255 { // so many sets of fields: those of the first are kept
		v.number, v.fields, v.parts = 0, all[0], nil
		for _, name := range v.fields {
			v.parts = append(v.parts, "header:"+name)
		}
	}
	if v.number < 0 {
		v.number = len(all)
		all = append(slices.Clone(all), v.fields)
		r.fields.Store(&all)
	}
}
