package memory_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// learner is an attacker that makes up keys, and learns from the answers which of
// its keys were forgotten, and so which keys share a line.
type learner struct {
	m     memory.Store
	limit limit.Limit
	made  int
}

func (a *learner) take(key string, n int64) limit.Decision {
	d, _ := a.m.TakeOne(context.Background(), limit.Ask{Key: key, Limit: a.limit, N: n})
	return d
}

func (a *learner) forgotten(key string) bool { return a.take(key, 0).Remaining == a.limit.Max() }

// meet returns keys that took the place of key when they came.
func (a *learner) meet(key string, n int) (found []string) {
	for len(found) < n {
		if a.forgotten(key) {
			a.take(key, 1)
		}
		a.made++
		x := fmt.Sprint("made up ", a.made)
		if a.take(x, 1); a.forgotten(key) {
			found = append(found, x)
		}
	}
	return found
}

// A flood of keys that are known to share lines with an offender, and with each
// other, frees it no more than any flood: each key has two lines, and both would
// have to be full of those that are refused.
func TestFloodThatLearns(t *testing.T) {
	a := &learner{limit: limit.Limit{Count: 4, Period: 100 * 365 * 24 * time.Hour}}
	a.m.MaxKeys = 1024
	for range 4 * a.m.MaxKeys {
		a.made++
		a.take(fmt.Sprint("made up ", a.made), 1)
	}
	near := a.meet("offender", 5)
	for _, x := range slices.Clone(near) {
		near = append(near, a.meet(x, 4)...)
	}
	for a.take("offender", 1).OK {
	}
	for range 3 {
		for _, x := range slices.Backward(near) {
			for a.take(x, 1).OK {
			}
			if !a.forgotten("offender") {
				continue
			}
			t.Fatalf("free after %d keys near it have used all, of a Store of %d", len(near), a.m.MaxKeys)
		}
	}
}

// A snapshot that was cut, changed, or doubled by chance is refused, and the Store
// is as new.
func TestSnapshotByChance(t *testing.T) {
	var m memory.Store
	for i := range 300 {
		l := floodKinds[i%len(floodKinds)]
		m.TakeOne(t.Context(), limit.Ask{Key: strings.Repeat("k", i*i%5000) + fmt.Sprint(i), Limit: l, N: 1})
	}
	good := m.Snapshot()
	chance := rand.New(rand.NewPCG(1, 1))
	for range 600 {
		bad := bytes.Clone(good)
		at := chance.IntN(len(bad))
		switch chance.IntN(5) {
		case 0:
			bad[at] ^= 1 << chance.IntN(8)
		case 1:
			bad = bad[:at]
		case 2:
			bad = append(bad[:at], bad[at+chance.IntN(len(bad)-at)+1:]...)
		case 3:
			bad = append(bad, bad[at:]...)
		case 4:
			bad = append(bad[:at:at], append([]byte{0xff}, bad[at:]...)...)
		}
		var after memory.Store
		if err := after.Restore(bad); err == nil {
			t.Fatal("a snapshot that was changed is restored")
		}
		if after.Len() != 0 || !after.Allow("k", perMinute, 1) {
			t.Fatal("something of it is used")
		}
	}
	var after memory.Store
	if err := after.Restore(good); err != nil || after.Len() != m.Len() {
		t.Errorf("the snapshot itself: %v, %d keys, want %d", err, after.Len(), m.Len())
	}
}

// Keys of hostile lengths and contents are many keys: none is taken
// for another.
func TestHostileKeysAreApart(t *testing.T) {
	m := memory.Store{MaxKeys: 1_000_000}
	once := limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: 100 * 365 * 24 * time.Hour}
	ask := func(family string, key []byte) {
		if !m.Allow(string(key), once, 1) {
			t.Fatalf("%s: a key that is new is refused: %d bytes", family, len(key))
		}
	}
	zeros, ones := make([]byte, 1<<16), bytes.Repeat([]byte{0xff}, 1<<16)
	for n := range 600 {
		ask("zeros", zeros[:n])
		if n > 0 {
			ask("ones", ones[:n])
		}
	}
	for n := 1; n < 16; n++ {
		ask("long zeros", zeros[:n<<12])
	}
	block := make([]byte, 64)
	for i := range 5_000 { // each 8 bytes in each place, and its complement
		for k := range block {
			block[k] = byte(k)
		}
		at, n := i%8*8, i/8
		for k := range 8 {
			block[at+k] = byte(n>>(8*(k%3))) ^ byte(-(i / 7 % 2))
		}
		block[(at+9)%64] = byte(i / 7 % 2)
		ask("blocks", append(block, byte(at)))
	}
	for i := range 5_000 {
		ask("one of many", []byte(fmt.Sprintf("%x\x00%x", uint64(i)*0x9e3779b97f4a7c15, i)))
	}
	if n := m.Forgotten(); n != 0 {
		t.Errorf("%d forgotten, want none", n)
	}
}
