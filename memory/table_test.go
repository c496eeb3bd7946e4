package memory

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// check looks for what must never be: a key that is there twice, a slot or a
// lock that was not given back, a key in a line that is not its own.
func (t *table) check() error {
	seen := map[string]bool{}
	for n := range t.lines {
		l := &t.lines[n]
		if tag := l[0].Load(); tag&tagLock != 0 {
			return fmt.Errorf("line %d is locked", n)
		}
		for i := 0; i < len(l); i = l.after(i) {
			tag, w := l[i].Load(), l[i+1].Load()
			if w == stateBusy {
				return fmt.Errorf("slot %d of line %d is busy", i/2, n)
			}
			if w == 0 {
				continue
			}
			if in := uint64(n) / t.rows; group(tag)&t.mask != in {
				return fmt.Errorf("tag %x is in group %d of %d", tag, in, t.mask+1)
			}
			if key := fmt.Sprintf("%x", tag&tagFingerprint); seen[key] {
				return fmt.Errorf("%s is there twice", key)
			}
			seen[fmt.Sprintf("%x", tag&tagFingerprint)] = true
		}
	}
	return nil
}

// TestTableKeepsWhatOwesMost fills tiny tables with states of both sizes. Each
// that is forgotten is counted, and none owes more than what stays in its lines
// where only single ones are kept.
func TestTableKeepsWhatOwesMost(t *testing.T) {
	oneGoroutine(t)
	single := limit.Limit{Count: 1, Period: time.Second, Burst: 1 << 40}
	paired := limit.Limit{Count: 99_991, Period: 99_990 * time.Second, Burst: 1 << 40}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := &Store{MaxKeys: 1 + rng.IntN(60)}
		now := m.table().base
		share := rng.IntN(5)
		kept := map[string]int64{} // seconds owed
		for step := range 600 {
			l := single
			if rng.IntN(4) < share {
				l = paired
			}
			key, n := fmt.Sprint(rng.IntN(200)), 100+rng.Int64N(1000) // more than this test takes
			d := m.oneAt(now, &limit.Ask{Key: key, Limit: l, N: n})
			used := d.Max - d.Remaining
			if used != n && used != kept[key]+n {
				t.Fatalf("seed %d, step %d: %s used %d and takes %d: now %d", seed, step, key, kept[key], n, used)
			}
			kept[key] = used
			if err := m.tab.Load().check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		left := 0
		for key, used := range kept {
			d := m.oneAt(now, &limit.Ask{Key: key, Limit: single})
			if got := d.Max - d.Remaining; got == used {
				left++
			} else if got != 0 {
				t.Errorf("seed %d: %s used %d, want %d or 0", seed, key, got, used)
			}
		}
		if n := m.Len(); n != left {
			t.Errorf("seed %d: Len() = %d, but %d of %d are known", seed, n, left, len(kept))
		}
		if m.Forgotten() < int64(len(kept)-left) {
			t.Errorf("seed %d: Forgotten() = %d, but %d of %d are known", seed, m.Forgotten(), left, len(kept))
		}
		if size := int64(len(m.tab.Load().lines)) * lineSize; size > max(int64(m.MaxKeys)*keyBytes, lineSize) {
			t.Errorf("Keys %d: the table has %d bytes", m.MaxKeys, size)
		}
	}
}

// TestTableGathers: two free slots in different halves take in a pair.
func TestTableGathers(t *testing.T) {
	m := &Store{MaxKeys: 1}
	tab := m.table()
	l := &tab.lines[0]
	l.lock()
	const w, soon = 1000 << 16, 10
	for i, tag := range []uint64{1, 2, 3, 4} {
		if n := tab.putSingle(&newcomer{a: l, b: l, tag: tag, now: soon}, w+uint64(i)<<16); n != 0 {
			t.Fatalf("putSingle(%d) displaced %d", tag, n)
		}
	}
	l.seize(2, l[3].Load())
	l.clear(2)
	l.seize(4, l[5].Load())
	l.clear(4)
	if !l.hasRoom(true, soon) {
		t.Error("no room for a pair in a line with two free slots")
	}
	s := limit.State{T: tab.start + 5000, N: 7, P: 8}
	if n := tab.putPair(&newcomer{a: l, b: l, tag: 9, now: soon}, s); n != 0 {
		t.Errorf("putPair displaced %d, want 0", n)
	}
	l.unlock()
	for _, tag := range []uint64{1, 4, 9} {
		if l.at(tag) < 0 {
			t.Errorf("tag %d is lost", tag)
		}
	}
	if got, ok := tab.loadPair(l, l.at(9), 9); got != s || !ok {
		t.Errorf("loadPair = %+v, %v, want %+v", got, ok, s)
	}
	if n := tab.check(); n != nil {
		t.Error(n)
	}
}

// TestHashSpreads: keys that differ in one bit, or in their length, or are long,
// meet in a line no more often than by chance.
func TestHashSpreads(t *testing.T) {
	oneGoroutine(t)
	s := hasher{seed: seed{0x0123456789abcdef, 0x1032547698badcfe, 0xfedcba9876543210, 0xefcdab8967452301}}
	families := map[string]func(i int) string{
		"numbers":  func(i int) string { return fmt.Sprint(i) },
		"lengths":  func(i int) string { return string(make([]byte, i%8000)) + fmt.Sprint(i/8000) },
		"one bit":  func(i int) string { b := make([]byte, 2000); b[i/8] |= 1 << (i % 8); return string(b) },
		"first 16": func(i int) string { return fmt.Sprintf("%016d................", i) },
		"last 16":  func(i int) string { return fmt.Sprintf("................%016d", i) },
		"high":     func(i int) string { return string([]byte{0, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)}) },
	}
	const n, places = 16_000, 1024
	for name, key := range families {
		seen := map[uint64]bool{}
		for _, shift := range []int{0, 10, 41, 54} {
			var count [places]float64
			for i := range n {
				h := s.hash(key(i))
				seen[h] = true
				count[h>>shift%places]++
			}
			chi := 0.0
			for _, c := range count {
				chi += (c - n/places) * (c - n/places) / (n / places)
			}
			// 1023 degrees of freedom: 1023 ± 45; five deviations either way.
			if chi < 1023-230 || chi > 1023+230 {
				t.Errorf("%s, bits from %d: chi square %.0f, want 1023 ± 230", name, shift, chi)
			}
		}
		if len(seen) != n {
			t.Errorf("%s: %d hashes of %d keys", name, len(seen), n)
		}
	}
}

// TestHashHangsOnEveryBit: each bit of the key and of the seed turns half of
// all bits of the hash.
func TestHashHangsOnEveryBit(t *testing.T) {
	oneGoroutine(t)
	rng := rand.New(rand.NewPCG(1, 1))
	turned := func(length int, bit func(key []byte, s *hasher)) float64 {
		total := 0
		for range 200 {
			var s hasher
			for i := range s.seed {
				s.seed[i] = rng.Uint64()
			}
			key := make([]byte, length)
			for i := range key {
				key[i] = byte(rng.Uint32())
			}
			before := s.hash(string(key))
			bit(key, &s)
			total += bits.OnesCount64(before ^ s.hash(string(key)))
		}
		return float64(total) / 200
	}
	for _, length := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 65, 81, 100, 128, 129} {
		for i := range 8 * length {
			if got := turned(length, func(key []byte, _ *hasher) { key[i/8] ^= 1 << (i % 8) }); got < 28 || got > 36 {
				t.Errorf("%d bytes, bit %d turns %.1f bits, want 32", length, i, got)
			}
		}
		for i := range 4 * 64 {
			if got := turned(length, func(_ []byte, s *hasher) { s.seed[i/64] ^= 1 << (i % 64) }); got < 28 || got > 36 {
				t.Errorf("%d bytes, bit %d of the seed turns %.1f bits, want 32", length, i, got)
			}
		}
	}
}

// TestTableDisplacesTheLeast: of the older half of two full lines the key that has
// used the smallest share of its limit makes room, wherever it is and whenever it
// ends; of equal shares that of fewer events.
func TestTableDisplacesTheLeast(t *testing.T) {
	m := new(Store)
	tab := m.table()
	hour := m.limits.get(&limit.Limit{Kind: limit.FirstHitWindow, Count: 100, Period: time.Hour})
	day := m.limits.get(&limit.Limit{Kind: limit.FirstHitWindow, Count: 1000, Period: 24 * time.Hour})
	a, b := &tab.lines[0], &tab.lines[1]
	a.lock()
	b.lock()
	for _, least := range []uint64{2, 3, 6, 7} { // of the older half
		for i := range uint64(8) {
			l, at := a, int(2*i)
			if i >= 4 {
				l, at = b, int(2*i-8)
			}
			p, end, used := hour, 1000+(i+8-least)%8, uint64(50)
			switch {
			case i == least:
				end, used = 5000, 50
			case i%4 < 2: // younger
				used = 1
			case i%2 == 0:
				p, used = day, 500
			default:
				used++
			}
			l.setTag(at, p.tag|(100+i))
			l[at+1].Store(end<<16 | used)
		}
		if n := tab.putSingle(&newcomer{a: a, b: b, tag: hour.tag | 99, p: hour, now: 10}, 5000<<16); n != 1 {
			t.Errorf("putSingle into full lines displaced %d, want 1", n)
		}
		if a.at(100+least) >= 0 || b.at(100+least) >= 0 || a.at(99) < 0 && b.at(99) < 0 {
			t.Errorf("slot %d has used least, and is still there", least)
		}
	}
}

// TestPreparedIs: limits that differ in any field are not taken for each other.
func TestPreparedIs(t *testing.T) {
	l := limit.Limit{Count: 3, Period: 7}
	p := prepare(l)
	if !p.is(&l) {
		t.Fatalf("prepare(%+v).is(it) = false", l)
	}
	for i := range reflect.TypeFor[limit.Limit]().NumField() {
		other := l
		switch f := reflect.ValueOf(&other).Elem().Field(i); {
		case f.CanInt():
			f.SetInt(f.Int() + 1)
		case f.CanUint():
			f.SetUint(f.Uint() + 1)
		default:
			f.Set(reflect.New(f.Type().Elem()))
		}
		if p.is(&other) {
			t.Errorf("prepare(%+v).is(%+v) = true", l, other)
		}
	}
}

// TestSearch: a key is found in each slot of its two lines, locked or not, and
// only under its own tag.
func TestSearch(t *testing.T) {
	tab := new(Store).table()
	const tag, h = uint64(5<<tagLimitShift | 77), 77
	a, b := tab.home(h)
	for n, line := range []uint64{a, b} {
		for i := 0; i < 2*lineSlots; i += 2 {
			l, want := &tab.lines[line], tag|uint64(n)*tagSecond
			for _, c := range []struct {
				in   uint64
				slot int
			}{
				{want, i}, {want | tagLock, i}, {want ^ tagSecond, -1}, {want + 1, -1}, {want + 1<<tagLimitShift, -1}, {tagMoved, -1},
			} {
				if i > 0 && c.in&tagLock != 0 {
					continue // only the first slot has a lock
				}
				l[i].Store(c.in)
				found, at := tab.search(h, tag)
				if at != c.slot || at >= 0 && found != l {
					t.Errorf("line %d, slot %d has %x: search(%d, %x) = slot %d, want %d", line, i/2, c.in, h, tag, at, c.slot)
				}
				l[i].Store(0)
			}
		}
	}
}
