package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A snapshot is, numbers in the form of encoding/binary's Uvarint, or 8 bytes
// little endian where it says so:
//
//	"throttle.Memory 3\n"
//	seed                     32 bytes
//	rows, doublings
//	length, limits           a line for each, as limit.Parse reads it
//	for each state: line + 1, tag (8 bytes), T, N, P (Varint)
//	0
//	for each log and slots: length + 1, key; hash (8 bytes); length, limit;
//	length, what limit.Log or limit.Slots append
//	0
//	SHA-256 of all that      32 bytes
//
// Version 2 is of a table whose hasher is serial. Version 1 is, too, and had no logs
// and slots, nor the zero behind them.
var snapshotHeads = [...]string{"throttle.Memory 3\n", "throttle.Memory 2\n", "throttle.Memory 1\n"}

var (
	errSnapshotUsed  = errors.New("memory: Restore must come before the first use of the Store")
	errSnapshotHead  = errors.New("memory: not a snapshot of a Store, or of another version")
	errSnapshotSum   = errors.New("memory: the snapshot is cut short or has been changed")
	errSnapshotShape = errors.New("memory: the snapshot contradicts itself")
)

// Snapshot returns the states of all keys, to be kept across a restart: some 25
// bytes for each key that has not expired. Decisions continue meanwhile, and
// each key is as of some moment in between; decisions on sliding logs and slots,
// and on keys that change to or from them, wait: some 100 ms for a million keys.
//
// It holds the secret of the hash, with which an attacker could guess keys, and
// make keys that collide with others: keep it as secret as a password. It holds
// no key, but those of logs and slots, which take some five bytes for each
// instant in a log, one or more for each slot, and the key besides; one that is
// longer than 256 bytes is held as a digest.
func (m *Store) Snapshot() []byte {
	b := m.snapshot()
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func (m *Store) snapshot() []byte {
	m.table()
	m.rings.mu.Lock() // so that no key becomes a ring, or ceases to be one
	defer m.rings.mu.Unlock()
	m.mu.Lock() // so that the table is not doubled
	defer m.mu.Unlock()
	t := m.tab.Load()
	t.settleAll()
	b := m.appendHead(t)
	now := uint64(t.micros())
	for i := range t.lines {
		l := &t.lines[i]
		l.lock()
		b = m.appendLine(b, t, i, now)
		l.unlock()
	}
	b = binary.AppendUvarint(b, 0)
	return m.appendRings(b, t.start+int64(now))
}

func (m *Store) appendHead(t *table) []byte {
	b := []byte(snapshotHeads[0])
	if t.serial {
		b = []byte(snapshotHeads[1])
	}
	for _, w := range t.seed {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = binary.AppendUvarint(b, t.rows)
	b = binary.AppendUvarint(b, uint64(bits.Len64(t.mask)))
	var text strings.Builder
	for _, p := range m.limits.list() {
		text.WriteString(strings.ReplaceAll(p.limit.String(), "\n", "?") + "\n") // a zone may have any name
	}
	b = binary.AppendUvarint(b, uint64(text.Len()))
	return append(b, text.String()...)
}

// appendLine appends the states of a line that is locked.
func (m *Store) appendLine(b []byte, t *table, n int, now uint64) []byte {
	l := &t.lines[n]
	for i := 0; i < len(l); i = l.after(i) {
		w, tag := l[i+1].Load(), l[i].Load()&^tagLock
		if ends(w) <= now {
			continue
		}
		var s limit.State
		if l.isPair(i) {
			s = t.state(l.four(i))
		} else {
			s = t.unpack(m.limits.of(tag), w)
		}
		b = binary.AppendUvarint(b, uint64(n)+1)
		b = binary.LittleEndian.AppendUint64(b, tag)
		b = binary.AppendVarint(b, s.T)
		b = binary.AppendVarint(b, s.N)
		b = binary.AppendVarint(b, s.P)
	}
	return b
}

// appendRings appends what rings remember. Their lock is held.
func (m *Store) appendRings(b []byte, now int64) []byte {
	for _, e := range m.rings.entries {
		if e.until <= now {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(e.key))+1)
		b = append(b, e.key...)
		b = binary.LittleEndian.AppendUint64(b, e.hash)
		text := e.limit.String()
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
		kept, _ := e.ring.AppendBinary(nil) // never an error
		b = binary.AppendUvarint(b, uint64(len(kept)))
		b = append(b, kept...)
	}
	return binary.AppendUvarint(b, 0)
}

// Restore loads a Snapshot of another Store. It must be called before first use.
// MaxKeys and MaxBytes may differ; if there is less room, the keys that have
// used the smallest shares of their limits are forgotten, and logs and slots are
// reduced. Keys that have expired since, by the wall clock, are left out. An
// incomplete or damaged snapshot is an error, and none of it is used. Snapshots
// of the version before, without logs and slots, are read too.
func (m *Store) Restore(snapshot []byte) error {
	m.rings.mu.Lock()
	defer m.rings.mu.Unlock()
	if err := m.restoreWhole(snapshot); err != nil {
		return err
	}
	m.shrinkRings(m.tab.Load().now(), "")
	return nil
}

// restoreWhole restores all, also more rings than there is room for.
func (m *Store) restoreWhole(snapshot []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tab.Load() != nil {
		return errSnapshotUsed
	}
	end := len(snapshot) - sha256.Size
	version := slices.IndexFunc(snapshotHeads[:], func(head string) bool { return bytes.HasPrefix(snapshot, []byte(head)) })
	if version < 0 {
		return errSnapshotHead
	}
	head := len(snapshotHeads[version])
	if end < head || sha256.Sum256(snapshot[:end]) != [sha256.Size]byte(snapshot[end:]) {
		return errSnapshotSum
	}
	return m.restoreAll(snapshotReader{b: snapshot[head:end]}, version > 0, version < 2)
}

// restoreAll reads what is between head and sum, hashed in a serial way or not, with
// rings or without.
func (m *Store) restoreAll(r snapshotReader, serial, withRings bool) error {
	t, old, err := m.restoreHead(&r)
	if err != nil {
		return err
	}
	t.serial = serial
	again := r
	if !r.states(&old, func(snapshotState) {}) || !withRings && len(r.b) > 0 {
		return errSnapshotShape
	}
	if withRings && !m.restoreRings(&r, t) {
		return errSnapshotShape
	}
	now := uint64(t.micros())
	again.states(&old, func(e snapshotState) { m.forgotten.Add(m.restore(t, &old, e, now)) })
	m.tab.Store(t)
	return nil
}

// restoreRings reads the rings, and keeps those that have not expired by the clock
// of t. It reports whether all is well; if not, there are none.
func (m *Store) restoreRings(r *snapshotReader, t *table) (ok bool) {
	x := &m.rings
	known := map[string]bool{}
	for n := r.uvarint(); n > 0 && !r.bad; n = r.uvarint() {
		e, ok := r.ring(n-1, &t.hasher)
		if !ok || known[e.key] {
			r.bad = true
			break
		}
		known[e.key] = true
		d := e.ring.Take(t.now(), limit.Ask{Limit: e.limit})
		x.put(e, t.now(), d.ResetAfter)
	}
	if r.bad || len(r.b) > 0 {
		x.index, x.entries, x.bytes = nil, nil, 0
		x.filter.bits.Store(nil)
		return false
	}
	return true
}

// snapshotOf is what a snapshot says of the table that it was taken of.
type snapshotOf struct {
	lines  uint64
	limits []*prepared // by number, less one
}

// snapshotState is one state in a snapshot.
type snapshotState struct {
	line, tag uint64
	s         limit.State
}

// restoreHead makes a table as large as the one in the snapshot, or as m may
// have, of as many rows.
func (m *Store) restoreHead(r *snapshotReader) (*table, snapshotOf, error) {
	secret := [32]byte(r.take(32))
	rows, doublings := r.uvarint(), r.uvarint()
	known := strings.SplitAfter(string(r.take(r.uvarint())), "\n")
	if r.bad || rows == 0 || rows >= maxFirstRows || doublings > 40 || len(known) > maxLimits+1 {
		return nil, snapshotOf{}, errSnapshotShape
	}
	size := rows
	for range doublings {
		if size <= m.maxLines()/2 {
			size *= 2
		}
	}
	t := newTable(m, rows, seedOf(secret), time.Now())
	t.lines, t.mask = newLines(size), size/rows-1
	t.spared.Store(true) // a snapshot does not say of a line whose it is
	return t, snapshotOf{rows << doublings, m.prepareAll(known[:len(known)-1])}, nil
}

// prepareAll prepares the limits of a snapshot. One that cannot be read, as its
// time zone is not known here, counts as one without a number.
func (m *Store) prepareAll(lines []string) (all []*prepared) {
	for _, line := range lines {
		p := new(prepared)
		if l, err := limit.Parse(strings.TrimSuffix(line, "\n"), time.LoadLocation); err == nil {
			if p = m.limits.get(&l); p.keeps == keepsRing {
				p = m.limits.reduced(l)
			}
		}
		all = append(all, p)
	}
	return all
}

// restore puts one state where it was: into the same line of its group, as only
// that of its two lines is known; or, where all others there are refused too, into
// the spare. What weighs least is forgotten, be it this one.
func (m *Store) restore(t *table, old *snapshotOf, e snapshotState, now uint64) (displaced int64) {
	p := &prepared{} // without a number
	if n := e.tag >> tagLimitShift; n > 0 {
		p = old.limits[n-1]
	}
	fp := e.tag & (tagFingerprint | tagSecond)
	row, lines := e.line%t.rows, t.lines[(group(fp)&t.mask)*t.rows:]
	l := &lines[row]
	l.lock()
	defer l.unlock()
	x := newcomer{a: l, b: l, tag: p.tag | fp, p: p, now: now, yields: true}
	// A row and its neighbour are the spares of each other, if it has one.
	if isFirst := fp&tagSecond == 0; isFirst && row^1 < t.rows && (row > 0 || t.rows%2 == 0) {
		x.more = &lines[row^1]
		x.more.lock()
		defer x.more.unlock()
	}
	w, single := t.pack(p, e.s, now)
	switch {
	case !single:
		return t.putPair(&x, e.s)
	case w != 0:
		return t.putSingle(&x, w)
	}
	return 0
}

// states calls f with each state, up to the zero behind them, and reports
// whether all is well.
func (r *snapshotReader) states(old *snapshotOf, f func(snapshotState)) (ok bool) {
	for n := r.uvarint(); n > 0; n = r.uvarint() {
		e := snapshotState{n - 1, r.fixed(), limit.State{T: r.varint(), N: r.varint(), P: r.varint()}}
		if r.bad || e.line >= old.lines || e.tag>>tagLimitShift > uint64(len(old.limits)) {
			return false
		}
		f(e)
	}
	return !r.bad
}

// ring reads the next entry, of a key of n bytes.
func (r *snapshotReader) ring(n uint64, s *hasher) (e ringEntry, ok bool) {
	e.key = string(r.take(n))
	e.hash = r.fixed()
	text := string(r.take(r.uvarint()))
	kept := r.take(r.uvarint())
	if r.bad || n > maxRingKey || !isDigest(e.key) && s.hash(e.key) != e.hash {
		return e, false
	}
	l, err := limit.Parse(text, nil)
	if err != nil || prepare(l).keeps != keepsRing {
		return e, false
	}
	e.limit, e.ring = l, newRing(l.Kind)
	return e, e.ring.UnmarshalBinary(kept) == nil
}

// A snapshotReader takes a snapshot apart. Once it is bad all it reads is zero.
type snapshotReader struct {
	b   []byte
	bad bool
}

func (r *snapshotReader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return make([]byte, min(n, 32))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *snapshotReader) fixed() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *snapshotReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return v * r.skip(n)
}

func (r *snapshotReader) varint() int64 {
	v, n := binary.Varint(r.b)
	return v * int64(r.skip(n))
}

// skip goes on by n bytes and returns 1, or 0 if nothing more can be read.
func (r *snapshotReader) skip(n int) uint64 {
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return 1
}
