package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A snapshot is, numbers in the form of encoding/binary's Uvarint, or 8 bytes
// little endian where it says so:
//
//	"Store 2\n"
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
// Version 1 had no logs and slots, nor the zero behind them.
const (
	snapshotHead = "throttle.Memory 2\n"
	snapshotOld  = "throttle.Memory 1\n"
)

var (
	errSnapshotUsed  = errors.New("throttle: Restore must come before the first use of the Memory")
	errSnapshotHead  = errors.New("throttle: not a snapshot of a Memory, or of another version")
	errSnapshotSum   = errors.New("throttle: the snapshot is cut short or has been changed")
	errSnapshotShape = errors.New("throttle: the snapshot contradicts itself")
)

// Snapshot is what is remembered, to be kept over a restart: some 25 bytes for
// each key that has not expired. Decisions go on meanwhile; each key is as of
// some moment of it. Those about sliding logs and slots, and about keys that
// change to or from them, wait: some 100 ms if there is a million keys.
//
// It holds the secret of the hash, with which one could guess keys, and make
// such as are taken for another: keep it as secret as a password. It holds no
// key, but those of logs and slots, which take some five bytes for each instant
// in a log, one or more for each slot, and the key besides; one that is longer
// than 256 bytes is held as a digest.
func (m *Store) Snapshot() []byte {
	b := m.snapshot()
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func (m *Store) snapshot() []byte {
	m.table()
	m.windows.mu.Lock() // so that no key comes from there, or goes there
	defer m.windows.mu.Unlock()
	m.mu.Lock() // so that the table is not doubled
	defer m.mu.Unlock()
	t := m.tab.Load()
	t.settleAll()
	b := m.snapshotHead(t)
	now := uint64(t.micros())
	for i := range t.lines {
		l := &t.lines[i]
		l.lock()
		b = m.snapshotLine(b, t, i, now)
		l.unlock()
	}
	b = binary.AppendUvarint(b, 0)
	return m.snapshotWindows(b, t.start+int64(now))
}

func (m *Store) snapshotHead(t *table) []byte {
	secret := t.seed.bytes()
	b := append([]byte(snapshotHead), secret[:]...)
	b = binary.AppendUvarint(b, t.rows)
	b = binary.AppendUvarint(b, uint64(bits.Len64(t.mask)))
	var text strings.Builder
	for _, p := range m.limits.list() {
		text.WriteString(p.limit.String() + "\n")
	}
	b = binary.AppendUvarint(b, uint64(text.Len()))
	return append(b, text.String()...)
}

// snapshotLine appends the states of a line that is locked.
func (m *Store) snapshotLine(b []byte, t *table, n int, now uint64) []byte {
	l := &t.lines[n]
	for i := 0; i < len(l); i = l.after(i) {
		w, tag := l[i+1].Load(), l[i].Load()&^lockBit
		if ends(w) <= now {
			continue
		}
		var s limit.State
		if l.isPair(i) {
			s = t.state(l.four(i))
		} else {
			s = unpack(m.limits.of(tag), w, t.start)
		}
		b = binary.AppendUvarint(b, uint64(n)+1)
		b = binary.LittleEndian.AppendUint64(b, tag)
		b = binary.AppendVarint(b, s.T)
		b = binary.AppendVarint(b, s.N)
		b = binary.AppendVarint(b, s.P)
	}
	return b
}

// Restore begins with what another Memory remembered. It must come before the
// first use. Keys and Bytes may differ; if there is less room, what does not fit
// is forgotten. What has expired since is left out; the wall clock tells. A
// snapshot that is not whole is refused with an error, and nothing of it used.
// One of an earlier version of this package, without logs and slots, will do.
func (m *Store) Restore(snapshot []byte) error {
	m.windows.mu.Lock()
	defer m.windows.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tab.Load() != nil {
		return errSnapshotUsed
	}
	end := len(snapshot) - sha256.Size
	old := bytes.HasPrefix(snapshot, []byte(snapshotOld))
	if !old && !bytes.HasPrefix(snapshot, []byte(snapshotHead)) {
		return errSnapshotHead
	}
	if end < len(snapshotHead) || sha256.Sum256(snapshot[:end]) != [sha256.Size]byte(snapshot[end:]) {
		return errSnapshotSum
	}
	return m.restoreAll(reader{b: snapshot[len(snapshotHead):end]}, !old)
}

// restoreAll reads what is between head and sum, with logs and slots or without.
func (m *Store) restoreAll(r reader, withWindows bool) error {
	t, old, err := m.restoreHead(&r)
	if err != nil {
		return err
	}
	again := r
	if !r.states(&old, func(restored) {}) || !withWindows && len(r.b) > 0 {
		return errSnapshotShape
	}
	if withWindows {
		forgotten, ok := m.restoreWindows(&r, t)
		if !ok {
			return errSnapshotShape
		}
		m.forgotten.Add(forgotten)
	}
	now := uint64(t.micros())
	again.states(&old, func(e restored) { m.forgotten.Add(m.restore(t, &old, e, now)) })
	m.tab.Store(t)
	return nil
}

// older is what a snapshot says of the Memory that it is of.
type older struct {
	lines  uint64
	limits []*prepared // by number, less one
}

type restored struct {
	line, tag uint64
	s         limit.State
}

// restoreHead makes a table as large as the one in the snapshot, or as m may
// have, of as many rows.
func (m *Store) restoreHead(r *reader) (*table, older, error) {
	secret := [32]byte(r.take(32))
	rows, doublings := r.uvarint(), r.uvarint()
	known := strings.SplitAfter(string(r.take(r.uvarint())), "\n")
	if r.bad || rows == 0 || rows >= firstRows || doublings > 40 || len(known) > mostLimits+1 {
		return nil, older{}, errSnapshotShape
	}
	if rows > m.lines() {
		return nil, older{}, fmt.Errorf("throttle: the snapshot needs a Memory of at least %d bytes; Keys and Bytes allow %d", rows*lineSize, m.bytes())
	}
	size := rows
	for range doublings {
		if size <= m.lines()/2 {
			size *= 2
		}
	}
	t := newTable(rows, seedOf(secret), time.Now())
	t.lines, t.mask = newLines(size), size/rows-1
	return t, older{rows << doublings, m.prepareAll(known[:len(known)-1])}, nil
}

// prepareAll makes the limits of a snapshot ready. One that cannot be read, as
// its time zone is not known here, counts as one without a number.
func (m *Store) prepareAll(lines []string) (all []*prepared) {
	for _, line := range lines {
		p := new(prepared)
		if l, err := limit.Parse(strings.TrimSuffix(line, "\n"), time.LoadLocation); err == nil {
			p = m.limits.get(&l)
		}
		all = append(all, p)
	}
	return all
}

// restore puts one state where it was: into the same line of its group, the
// only one of its two lines that is known.
func (m *Store) restore(t *table, old *older, e restored, now uint64) (displaced int64) {
	p := &prepared{} // without a number
	if n := e.tag >> idShift; n > 0 {
		p = old.limits[n-1]
	}
	fp := e.tag & (fpMask | second)
	l := &t.lines[(group(fp)&t.mask)*t.rows+e.line%t.rows]
	l.lock()
	defer l.unlock()
	w, single := t.pack(p, e.s, now)
	switch {
	case !single:
		return t.putPair(l, l, p.tag|fp, e.s, now)
	case w != 0:
		return t.putSingle(l, l, p.tag|fp, w, now)
	}
	return 0
}

// states calls f with each state, up to the zero behind them, and reports
// whether all is well.
func (r *reader) states(old *older, f func(restored)) (ok bool) {
	for n := r.uvarint(); n > 0; n = r.uvarint() {
		e := restored{n - 1, r.fixed(), limit.State{T: r.varint(), N: r.varint(), P: r.varint()}}
		if r.bad || e.line >= old.lines || e.tag>>idShift > uint64(len(old.limits)) {
			return false
		}
		f(e)
	}
	return !r.bad
}

// A reader takes a snapshot apart. Once it is bad all it reads is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return make([]byte, min(n, 32))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) fixed() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return v * r.skip(n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	return v * int64(r.skip(n))
}

// skip is 1, or 0 if nothing more can be read.
func (r *reader) skip(n int) uint64 {
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return 1
}
