package memory

import (
	"encoding/binary"

	"github.com/throttle-go/throttle/limit"
)

// snapshotWindows appends what windows remember. Their lock is held.
func (m *Store) snapshotWindows(b []byte, now int64) []byte {
	for _, e := range m.windows.entries {
		if e.until <= now {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(e.key))+1)
		b = append(b, e.key...)
		b = binary.LittleEndian.AppendUint64(b, e.hash)
		text := e.limit.String()
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
		kept, _ := e.keep.AppendBinary(nil) // never an error
		b = binary.AppendUvarint(b, uint64(len(kept)))
		b = append(b, kept...)
	}
	return binary.AppendUvarint(b, 0)
}

// restoreWindows reads them, and keeps what has not expired by the clock of t
// and fits. It reports how many it forgot, and whether all is well; if not, there
// are none.
func (m *Store) restoreWindows(r *reader, t *table) (forgotten int64, ok bool) {
	x := &m.windows
	known := map[string]bool{}
	for n := r.uvarint(); n > 0 && !r.bad; n = r.uvarint() {
		e, ok := r.window(n-1, &t.seed)
		if !ok || known[e.key] {
			r.bad = true
			break
		}
		known[e.key] = true
		d := e.keep.Take(t.now(), limit.Ask{Limit: e.limit})
		forgotten += x.put(m, t.now(), e, d.ResetAfter)
	}
	if r.bad || len(r.b) > 0 {
		x.index, x.entries, x.bytes = nil, nil, 0
		x.seen.bits.Store(nil)
		return 0, false
	}
	return forgotten, true
}

// window is the next one, of a key of n bytes.
func (r *reader) window(n uint64, s *seed) (e windowEntry, ok bool) {
	e.key = string(r.take(n))
	e.hash = r.fixed()
	text := string(r.take(r.uvarint()))
	kept := r.take(r.uvarint())
	if r.bad || n > longestKey || !isDigest(e.key) && s.hash(e.key) != e.hash {
		return e, false
	}
	l, err := limit.Parse(text, nil)
	if err != nil || prepare(l).keeps != keepsWindow {
		return e, false
	}
	e.limit, e.keep = l, newWindow(l.Kind)
	return e, e.keep.UnmarshalBinary(kept) == nil
}
