package limit

import (
	"bytes"
	"encoding"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// keepsApart is a Log or Slots.
type keepsApart interface {
	Take(now time.Time, a Ask) Decision
	Used(now time.Time, l Limit) int64
	Bytes() int64
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

var (
	_ keepsApart = (*Log)(nil)
	_ keepsApart = (*Slots)(nil)
)

func binaryOf(t *testing.T, k keepsApart) []byte {
	t.Helper()
	b, err := k.AppendBinary([]byte("x"))
	if err != nil || b[0] != 'x' {
		t.Fatalf("AppendBinary to x = %x, %v", b, err)
	}
	return b[1:]
}

// clones are another of the kind of k that was read from its binary form, and
// its Clone.
func clones(t *testing.T, k keepsApart) (read, clone keepsApart) {
	t.Helper()
	switch k := k.(type) {
	case *Log:
		read, clone = new(Log), k.Clone()
	case *Slots:
		read, clone = new(Slots), k.Clone()
	}
	b := binaryOf(t, k)
	if err := read.UnmarshalBinary(b); err != nil {
		t.Fatalf("UnmarshalBinary(%x): %v", b, err)
	}
	if again := binaryOf(t, read); !bytes.Equal(again, b) {
		t.Fatalf("UnmarshalBinary(%x) is %x", b, again)
	}
	return read, clone
}

// TestBinary: what was read decides as what was written, whatever was asked
// before, as does a Clone; and neither shares anything with it.
func TestBinary(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for round := range 400 {
		kept := []keepsApart{new(Log), new(Slots)}[round%2]
		l := Limit{Count: 1 + rng.Int64N(20), Period: time.Duration(1 + rng.Int64N(1e9)), Slots: rng.Int32N(20)}
		now := t0.Add(time.Duration(rng.Int64N(4e9)) - 2e9)
		for range rng.IntN(60) {
			now = now.Add(time.Duration(rng.Int64N(int64(l.Period)/4 + 1)))
			switch rng.IntN(20) {
			case 0:
				now = now.Add(-time.Duration(rng.Int64N(5e9)))
			case 1:
				l.Count, l.Period, l.Slots = 1+rng.Int64N(20), time.Duration(1+rng.Int64N(1e9)), rng.Int32N(20)
			}
			kept.Take(now, Ask{Limit: l, N: rng.Int64N(9) - 3, Debt: rng.IntN(3) == 0})
		}
		read, clone := clones(t, kept)
		before := binaryOf(t, kept)
		clone.Take(now, Ask{Limit: l, N: 3, Debt: true})
		if after := binaryOf(t, kept); !bytes.Equal(after, before) {
			t.Fatalf("asking the Clone made %x of %x", after, before)
		}
		_, clone = clones(t, kept)
		for range 20 {
			now = now.Add(time.Duration(rng.Int64N(int64(l.Period)/4 + 1)))
			a := Ask{Limit: l, N: rng.Int64N(9) - 3}
			want := kept.Take(now, a)
			if got, of := read.Take(now, a), clone.Take(now, a); got != want || of != want {
				t.Fatalf("Take(%v, %+v)\nread  %+v\nclone %+v\nwant  %+v", now, a, got, of, want)
			}
		}
	}
}

// TestBinaryIsRefused: what nobody has written is refused, and nothing changes.
func TestBinaryIsRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		kept keepsApart
		b    []byte
	}{
		{"nothing", new(Log), nil},
		{"another version", new(Log), []byte{2}},
		{"no amount", new(Log), []byte{1, 2}},
		{"an amount of none", new(Log), []byte{1, 2, 0}},
		{"two entries of one time", new(Log), []byte{1, 2, 1, 0, 1}},
		{"time that goes back", new(Log), []byte{1, 2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1}},
		{"a number that is longer than it need be", new(Log), []byte{1, 2, 0x81, 0}},
		{"a number of more than 64 bits", new(Log), []byte{1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}},
		{"more than can be owed", new(Log), []byte{1, 2, 0x80, 0x89, 0x7a, 1, 1}},
		{"nothing", new(Slots), nil},
		{"another version", new(Slots), []byte{0}},
		{"cut short", new(Slots), []byte{1, 1, 2, 0, 0}},
		{"too long", new(Slots), []byte{1, 1, 2, 0, 0, 0, 0}},
		{"no width", new(Slots), []byte{1, 0, 2, 0, 0, 0}},
		{"one slot", new(Slots), []byte{1, 1, 1, 0, 0}},
		{"too many slots", new(Slots), append([]byte{1, 1, 0xea, 7, 0}, make([]byte, 1002)...)},
		{"a time that does not come", new(Slots), []byte{1, 1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0}},
		{"a Period that cannot be", new(Slots), []byte{1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 2, 0, 0, 0}},
		{"slots that make no Period", new(Slots), append([]byte{1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 8, 0xe9, 7, 0}, make([]byte, 1001)...)},
		{"more than can be owed", new(Slots), []byte{1, 1, 2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1}},
	} {
		c.kept.Take(t0, Ask{Limit: Limit{Count: 5, Period: time.Hour}, N: 2})
		before := binaryOf(t, c.kept)
		if err := c.kept.UnmarshalBinary(c.b); err == nil || bytes.ContainsRune([]byte(err.Error()), '\n') {
			t.Errorf("UnmarshalBinary(%x) into %T, %s: error %v, want one line", c.b, c.kept, c.what, err)
		}
		if after := binaryOf(t, c.kept); !bytes.Equal(after, before) {
			t.Errorf("%s, refused, made %x of %x", c.what, after, before)
		}
	}
}

// TestBinaryOfOneTime: where a clock set back has moved what was taken to the
// time of something else, it is written as one, and read as the same.
func TestBinaryOfOneTime(t *testing.T) {
	l := Limit{Count: 10, Period: time.Minute}
	var log Log
	for i := range 3 {
		log.Take(t0.Add(time.Duration(i)*time.Minute/4), Ask{Limit: l, N: 2})
	}
	back := t0.Add(-time.Second)
	want := log.Take(back, Ask{Limit: l})
	read, _ := clones(t, &log)
	if got := read.Take(back, Ask{Limit: l}); got != want || got.Remaining != 4 || got.ResetAfter != 61*time.Second {
		t.Errorf("read as %+v, want %+v", got, want)
	}
	if b := binaryOf(t, &log); len(b) > 12 {
		t.Errorf("%d bytes for one time: %x", len(b), b)
	}
}

// TestBinaryAtTheEdges: the largest there can be is written and read.
func TestBinaryAtTheEdges(t *testing.T) {
	for _, at := range []time.Time{t0, time.UnixMicro(math.MinInt64), time.UnixMicro(math.MaxInt64)} {
		for _, period := range []time.Duration{1, time.Hour, math.MaxInt64} {
			for _, slots := range []int32{1, 2, MaxSlots} {
				for _, k := range []keepsApart{new(Log), new(Slots)} {
					l := Limit{Count: math.MaxInt64, Period: period, Slots: slots}
					k.Take(at, Ask{Limit: l, N: math.MaxInt64, Debt: true})
					l.Period = math.MaxInt64
					k.Take(at, Ask{Limit: l, N: math.MaxInt64, Debt: true})
					clones(t, k)
				}
			}
		}
	}
}

// FuzzBinary: what is read is written the same, is not large, and counts
// without overflow.
func FuzzBinary(f *testing.F) {
	var log Log
	var slots Slots
	for i := range 20 {
		at := t0.Add(time.Duration(i) * time.Second)
		log.Take(at, Ask{Limit: Limit{Count: 50, Period: time.Hour}, N: int64(i)})
		slots.Take(at, Ask{Limit: Limit{Count: 50, Period: time.Minute}, N: int64(i)})
	}
	for _, k := range []keepsApart{&log, &slots} {
		b, _ := k.AppendBinary(nil)
		f.Add(b, int64(5), int64(time.Minute), int64(0))
		f.Add(b, int64(100), int64(time.Hour), int64(math.MinInt64))
	}
	f.Add([]byte{1}, int64(1), int64(1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, b []byte, count, period, now int64) {
		for _, k := range []keepsApart{new(Log), new(Slots)} {
			if err := k.UnmarshalBinary(b); err != nil {
				continue
			}
			if again := binaryOf(t, k); !bytes.Equal(again, b) {
				t.Fatalf("%T of %x is %x", k, b, again)
			}
			if n := k.Bytes(); n > 16*int64(len(b))+200 {
				t.Fatalf("%T of %d bytes takes %d", k, len(b), n)
			}
			l := Limit{Count: count, Period: time.Duration(period)}
			at := time.UnixMicro(now)
			used := k.Used(at, l)
			d := k.Take(at, Ask{Limit: l, N: 1})
			if used < 0 || d.Remaining < 0 || d.Remaining > l.Max() || d.RetryAfter < 0 || d.ResetAfter < 0 {
				t.Fatalf("%T of %x, %v at %v: %d used, %+v", k, b, l, at, used, d)
			}
			if now>>61 != now>>63 || d.OK || d.RetryAfter == Never { // so far away slots are not told apart
				continue
			}
			if again := k.Take(at.Add(d.RetryAfter), Ask{Limit: l, N: 1}); !again.OK {
				t.Fatalf("%T of %x, %v at %v: %+v, and then refused: %+v", k, b, l, at, d, again)
			}
		}
	})
}
