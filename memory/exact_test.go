package memory_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// memoryLimits are such as pack and such as do not, some of which are close to
// each other.
var memoryLimits = []limit.Limit{
	{Count: 10, Period: time.Second},
	{Count: 3, Period: time.Second, Burst: 5},
	{Count: 7, Period: time.Millisecond, Burst: 3},
	{Count: 600_000_000, Period: time.Second, Burst: 5},
	{Count: 99_991, Period: time.Second, Burst: 3},
	{Count: 65_537, Period: 12_345_677 * time.Microsecond, Burst: 2},
	{Count: 1, Period: 24 * time.Hour},
	{Count: 1, Period: 30 * 365 * 24 * time.Hour, Burst: 3},
	{Kind: limit.FixedWindow, Count: 5, Period: time.Second},
	{Kind: limit.FixedWindow, Count: 40_000, Period: time.Second},
	{Kind: limit.FixedWindow, Count: 1_000_000, Period: time.Minute},
	{Kind: limit.FixedWindow, Count: 2, Period: 20 * 365 * 24 * time.Hour},
	{Kind: limit.SlidingWindow, Count: 9, Period: time.Second},
	{Kind: limit.FirstHitWindow, Count: 9, Period: time.Second},
	{Kind: limit.CalendarWindow, Count: 9, Period: time.Minute},
	{Kind: limit.SlidingLog, Count: 8, Period: time.Second},
	{Kind: limit.SlidingLog, Count: 11, Period: time.Hour},
	{Kind: limit.SlidingSlots, Count: 8, Period: time.Second},
	{Kind: limit.SlidingSlots, Count: 11, Period: time.Hour, Slots: 3},
	{},
	{Period: time.Second},
}

// A memoryPair asks both the same.
type memoryPair struct {
	*testing.T
	model memoryModel
	ours  *memory.Store
	now   time.Time
}

func (p *memoryPair) ask(a []limit.Ask) {
	p.Helper()
	was := map[string]string{}
	for i := range a {
		was[a[i].Key] = fmt.Sprintf("%+v", p.model[a[i].Key])
	}
	if len(a) == 1 && a[0] == (limit.Ask{Key: a[0].Key, Limit: a[0].Limit, N: 1}) && p.now.UnixMicro()%2 == 0 {
		want := p.model.take(p.now, a, make([]limit.Decision, 1))
		if got := p.ours.AllowAt(p.now, a[0].Key, a[0].Limit); got != want {
			p.Fatalf("Allow(%+v) at %v from %+v = %v, want %v", a, p.now, was, got, want)
		}
		return
	}
	got, want := make([]limit.Decision, len(a)), make([]limit.Decision, len(a))
	wantOK := p.model.take(p.now, a, want)
	gotOK := p.ours.DecideAt(p.now, a, got)
	for i := range a {
		if got[i] != want[i] || gotOK != wantOK {
			p.Fatalf("Take(%+v) at %v from %+v\n got  %v %+v\n want %v %+v", a, p.now, was, gotOK, got, wantOK, want)
		}
	}
}

// step makes an ask, or moves time, as nine bytes say.
func (p *memoryPair) step(b []byte) {
	p.Helper()
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	switch what := b[0] % 16; {
	case what < 3:
		p.now = p.now.Add(time.Duration(n) >> (b[1] % 32) * time.Microsecond)
		return
	case what == 3 && b[1] == 0:
		p.now = p.now.Add(time.Duration(n) * time.Second) // up to 136 years
		return
	}
	var a []limit.Ask
	for i := range 1 + int(b[8]%16)/13 {
		l := memoryLimits[int(b[1+i])%len(memoryLimits)]
		a = append(a, limit.Ask{Key: strconv.Itoa(i*100 + int(b[2+i]%12)), Limit: l, N: 1})
	}
	switch ask := &a[0]; b[3] % 8 {
	case 0:
		ask.N = 0
	case 1:
		ask.N = -(n % 50)
	case 2:
		ask.N = n >> (b[4] % 32)
	case 3:
		ask.N, ask.Min = n%20, n%7
	case 4:
		ask.N, ask.Debt = n>>(b[4]%32), true
	}
	p.ask(a)
}

func newMemoryPair(t *testing.T) *memoryPair {
	p := &memoryPair{t, memoryModel{}, new(memory.Store), time.Time{}}
	p.now = p.ours.Start()
	return p
}

// TestMemoryAgrees: a Memory answers as package limit does, bit for bit, also
// where a limit changes, a state does not pack, or years pass.
func TestMemoryAgrees(t *testing.T) {
	for seed := range uint64(size(400)) {
		rng, p := rand.New(rand.NewPCG(seed, 1)), newMemoryPair(t)
		for range 2500 {
			var b [9]byte
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			p.step(b[:])
		}
		if n := p.ours.Forgotten(); n != 0 {
			t.Errorf("seed %d: Forgotten() = %d, want 0", seed, n)
		}
	}
}

func FuzzMemory(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 4 {
		b := make([]byte, 9*40)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newMemoryPair(t)
		for ; len(b) >= 9; b = b[9:] {
			p.step(b)
		}
	})
}

// TestMemoryClaimsApart: a new key takes the room of one that has expired, which
// comes in the same question. Both are kept.
func TestMemoryClaimsApart(t *testing.T) {
	m := memory.Store{MaxKeys: 1}
	window := limit.Limit{Kind: limit.FixedWindow, Count: 1_000_000, Period: time.Second}
	hour := limit.Limit{Count: 3, Period: time.Hour}
	now, d := m.Start(), make([]limit.Decision, 2)
	m.DecideAt(now, []limit.Ask{{Key: "old", Limit: window, N: 70_000}}, d[:1])
	now = now.Add(2 * time.Second)
	a := []limit.Ask{{Key: "new", Limit: hour, N: 1}, {Key: "old", Limit: window, N: 70_000}}
	for i := range int64(3) {
		m.DecideAt(now, a, d)
		if d[0].Remaining != 2-i || d[1].Remaining != 1_000_000-70_000*(i+1) {
			t.Errorf("the %d. time %d and %d remain, want %d and %d", i+1, d[0].Remaining, d[1].Remaining, 2-i, 1_000_000-70_000*(i+1))
		}
	}
}
