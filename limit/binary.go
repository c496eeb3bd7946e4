package limit

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// The binary forms, numbers as encoding/binary's Uvarint, those that may be
// below zero as its Varint:
//
//	Log    1, the at of the oldest entry (Varint), what it took, then for each
//	       further entry how much later it is, and what it took
//	Slots  1, and if anything was ever asked: width, length of the ring, the
//	       newest slot (Varint), what each slot has taken, the oldest first
//
// The first byte is the version. There is one form only for each content.
const binaryVersion = 1

var (
	errLogBinary   = errors.New("limit: this is no Log in the form that AppendBinary gives it")
	errSlotsBinary = errors.New("limit: these are no Slots in the form that AppendBinary gives them")
)

// Clone returns a copy of l that changes independently.
func (l *Log) Clone() *Log {
	c := *l
	c.ring = slices.Clone(l.ring)
	return &c
}

// AppendBinary appends the Log to b: some five bytes for each instant. The error
// is always nil.
func (l *Log) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, binaryVersion)
	for i := 0; i < l.size; {
		from, at := i, l.at(i).at
		for i < l.size && l.at(i).at == at { // a clock set back may have left two of one time
			i++
		}
		if from == 0 {
			b = binary.AppendVarint(b, at)
		} else {
			b = binary.AppendUvarint(b, uint64(at)-uint64(l.at(from-1).at))
		}
		b = binary.AppendUvarint(b, uint64(l.sum(i)-l.sum(from)))
	}
	return b, nil
}

// UnmarshalBinary sets l to what AppendBinary has written. It takes at most 16
// times the memory of data, and 128 bytes. Data that AppendBinary would not
// write are an error of one line, and leave l unchanged.
func (l *Log) UnmarshalBinary(data []byte) error {
	var read Log
	r := numbers{b: data}
	r.version()
	for at := int64(0); len(r.b) > 0 && !r.bad; {
		before := at
		if read.size == 0 {
			at = r.varint()
		} else if at += int64(r.uvarint()); at <= before {
			return errLogBinary
		}
		n := r.uvarint()
		if n == 0 || n > 2*MaxLog-uint64(read.total()) { // no more can be owed
			return errLogBinary
		}
		read.add(at, int64(n))
	}
	if r.bad {
		return errLogBinary
	}
	*l = read
	return nil
}

// Clone returns a copy of s that changes independently.
func (s *Slots) Clone() *Slots {
	c := *s
	c.ring = slices.Clone(s.ring)
	return &c
}

// AppendBinary appends the Slots to b: a byte or more for each slot. The error
// is always nil.
func (s *Slots) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, binaryVersion)
	if s.ring == nil {
		return b, nil
	}
	b = binary.AppendUvarint(b, uint64(s.width))
	b = binary.AppendUvarint(b, uint64(len(s.ring)))
	b = binary.AppendVarint(b, s.last)
	for i := s.oldest(s.last); i <= s.last; i++ {
		b = binary.AppendUvarint(b, uint64(*s.at(i)))
	}
	return b, nil
}

// UnmarshalBinary sets s to what AppendBinary has written. Data that
// AppendBinary would not write are an error of one line, and leave s unchanged.
func (s *Slots) UnmarshalBinary(data []byte) error {
	r := numbers{b: data}
	if r.version(); len(r.b) == 0 && !r.bad {
		*s = Slots{}
		return nil
	}
	width, n, last := r.uvarint(), r.uvarint(), r.varint()
	if r.bad || !slotsCanBe(width, n, last) {
		return errSlotsBinary
	}
	read := Slots{ring: make([]int64, n), last: last, width: int64(width)}
	sum := uint64(0)
	for i := read.oldest(last); i <= last; i++ {
		taken := r.uvarint()
		if taken > math.MaxInt64-sum { // no more can be owed
			return errSlotsBinary
		}
		sum += taken
		*read.at(i) = int64(taken)
	}
	if r.bad || len(r.b) > 0 {
		return errSlotsBinary
	}
	*s = read
	return nil
}

// slotsCanBe reports whether some Period is divided so, and whether time comes
// to the slot: so that no product of theirs overflows.
func slotsCanBe(width, n uint64, last int64) bool {
	const longest = math.MaxInt64/1000 + 1 // Period, in microseconds
	if width == 0 || width > longest || n < 2 || n > MaxSlots+1 || (n-2)*width >= longest {
		return false
	}
	// What was taken at the end of time may have been moved by a wider slot.
	end := (1<<62+skew+longest)/int64(width) + 1
	return -end <= last && last <= end
}

// numbers are taken off the front of b. Once it is bad all are zero.
type numbers struct {
	b   []byte
	bad bool
}

func (r *numbers) version() {
	if len(r.b) == 0 || r.b[0] != binaryVersion {
		r.bad = true
		return
	}
	r.b = r.b[1:]
}

func (r *numbers) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return v * r.skip(n)
}

func (r *numbers) varint() int64 {
	v, n := binary.Varint(r.b)
	return v * int64(r.skip(n))
}

// skip is 1, or 0 if the number was cut short, too large, or longer than it
// need be.
func (r *numbers) skip(n int) uint64 {
	if r.bad || n <= 0 || n > 1 && r.b[n-1] == 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return 1
}
