package recent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
	"github.com/throttle-go/throttle/internal/bubble"
)

// shared is a rules.Shared in memory.
type shared struct {
	mu     sync.Mutex
	n      int
	data   []byte
	writes int
	err    error
	slow   time.Duration // each call
}

func (s *shared) Load(context.Context) (string, []byte, error) {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return "", nil, s.err
	}
	return strconv.Itoa(s.n), s.data, s.err
}

func (s *shared) Swap(_ context.Context, old string, data []byte) (string, bool, error) {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n > 0 && old != strconv.Itoa(s.n) || s.n == 0 && old != "" {
		return "", false, nil
	}
	s.n++
	s.writes++
	s.data = data
	return strconv.Itoa(s.n), true, nil
}

// written returns the number of writes and the size of the last.
func (s *shared) written() (writes, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, len(s.data)
}

// three are instances that share a document, each with decisions about one key of its
// own and one of all.
func three(t *testing.T, s *shared) (all [3]*Peers, stop [3]func()) {
	for i := range all {
		r := &Decisions{Show: true}
		c := control(t, r, several)
		begin(t, c, 5, "all", "/")
		begin(t, c, i+1, "own-"+strconv.Itoa(i), "/")
		all[i] = &Peers{Shared: s, Decisions: r}
		ctx, cancel := context.WithCancel(t.Context())
		stop[i] = cancel
		go all[i].Run(ctx)
	}
	return all, stop
}

// TestPeers: while an operator looks at one instance, it has the counts of all;
// otherwise nothing is written.
func TestPeers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(shared)
		all, stop := three(t, s)
		defer func() {
			for _, end := range stop {
				end()
			}
		}()
		time.Sleep(10 * time.Second)
		if n, _ := s.written(); n != 0 {
			t.Fatalf("%d writes, and nobody looked", n)
		}
		look := func(i int, want int, count uint64) {
			t.Helper()
			top, n, err := all[i].Top(time.Now(), sketch.All, "client", 9)
			if err != nil || n != want || len(top.Keys) != want+1 || top.Keys[0].Count != count || top.Keys[0].AtMost != count {
				t.Errorf("instance %d: %d instances, %+v, %v, want %d, the first key with %d", i, n, top.Keys, err, want, count)
			}
		}
		look(1, 1, 5)
		time.Sleep(9 * time.Second)
		for range 4 {
			look(1, 3, 15)
			time.Sleep(3 * time.Second)
		}
		if n, size := s.written(); n > 7*3 || size > 64<<10 {
			t.Errorf("%d writes of %d bytes in 21 seconds, want at most 21, small", n, size)
		}
		stop[2]()
		time.Sleep(6 * time.Second)
		look(1, 3, 15)
		time.Sleep(13 * time.Second)
		look(1, 2, 10) // one has ended
		time.Sleep(time.Minute)
		before, _ := s.written()
		time.Sleep(time.Minute)
		if n, _ := s.written(); n != before {
			t.Errorf("%d writes in a minute in which nobody looked", n-before)
		}
		if d := documentOf(s.data); len(d.Parts) != 0 || d.Asked == 0 {
			t.Errorf("the document when nobody looks: %s, want no part of any instance", s.data)
		}
		look(0, 1, 5)
		time.Sleep(9 * time.Second)
		look(0, 2, 10)
	})
}

// TestPeersFit: the parts of as many instances as may take part fit into a document,
// and what is left out of them has the fewest counts.
func TestPeersFit(t *testing.T) {
	r := &Decisions{Show: true}
	c := control(t, r, `{"rules": [{"name": "rule-with-a-name", "key": "client", "limits": "5/h"}]}`)
	for i := range peerKeys {
		begin(t, c, 7+i, fmt.Sprintf("a-client-with-a-name-%03d", i), "/")
	}
	now := time.Now()
	p, d := Peers{Decisions: r, looked: now}, documentOf(nil)
	shares, _ := p.read(d, now)
	if _, err := p.write(d, now, shares); err != nil {
		t.Fatal(err)
	}
	d.Asked = math.MaxUint64
	one := d.Parts[p.name]
	one.Number = math.MaxUint64
	for i := range maxPeers - 1 {
		d.Parts[fmt.Sprintf("%016x", i)] = one
	}
	if all, err := json.Marshal(d); err != nil || len(all) > 1<<20 {
		t.Errorf("%d instances have a document of %d bytes, %v, want 1 MiB at most", len(d.Parts), len(all), err)
	}
	for by, top := range one.Tops {
		n, full := len(top.Keys), r.Top(now, sketch.By(by), "", peerKeys)
		if n < peerKeys/2 || n >= peerKeys || len(full.Keys) != peerKeys {
			t.Fatalf("measure %d: %d of %d keys, want some of 50", by, n, len(full.Keys))
		}
		same := func(a, b sketch.Key) bool { return a.Count == b.Count } // equal counts have no order
		if !slices.EqualFunc(top.Keys, full.Keys[:n], same) || top.Total != full.Total || top.Missed != full.Keys[n].AtMost {
			t.Fatalf("measure %d: %d in all, %d missed, the least of %d keys with %d, want %d, %d, the largest", by, top.Total, top.Missed, n, top.Keys[n-1].Count, full.Total, full.Keys[n].AtMost)
		}
	}
}

// TestPeersTogether: instances that start at one moment all come to share their keys,
// over a store that takes its time.
func TestPeersTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &shared{slow: 5 * time.Millisecond}
		var all [maxPeers]Peers
		var running sync.WaitGroup
		defer running.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for i := range all {
			all[i].Shared, all[i].Decisions = s, new(Decisions)
			running.Go(func() { all[i].Run(ctx) })
		}
		for range 10 {
			all[0].Top(time.Now(), sketch.All, "", 9)
			time.Sleep(every)
		}
		if _, n, err := all[0].Top(time.Now(), sketch.All, "", 9); n < maxPeers*9/10 || err != nil {
			t.Errorf("%d of %d instances share their keys, %v, want 9 in 10", n, maxPeers, err)
		}
	})
}

// TestPeersAway: without the store there is this instance, and why.
func TestPeersAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &shared{err: errors.New("away")}
		all, stop := three(t, s)
		time.Sleep(7 * time.Second)
		if top, n, err := all[0].Top(time.Now(), sketch.All, "", 9); n != 1 || err == nil || len(top.Keys) == 0 {
			t.Errorf("Top without the store: %d instances, %v, %d keys, want one, an error, some", n, err, len(top.Keys))
		}
		s.mu.Lock()
		s.err, s.data, s.n = nil, []byte("{nonsense"), 7
		s.mu.Unlock()
		time.Sleep(12 * time.Second)
		if _, n, err := all[0].Top(time.Now(), sketch.All, "", 9); n != 3 || err != nil {
			t.Errorf("Top with the store back: %d instances, %v, want 3", n, err)
		}
		for _, end := range stop {
			end()
		}
	})
}
