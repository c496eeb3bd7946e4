package recent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
	"github.com/throttle-go/throttle/rules"
)

// Peers share the top keys of several instances, through a document in their store,
// while an operator looks at one of them. An instance reads the document every 3
// seconds, and writes to it as often while any of them is looked at; then it removes its
// part, once. No clock of another machine counts. It is safe for concurrent use; the
// fields must not change, nor it be copied, after first use.
type Peers struct {
	// Shared is the document.
	Shared rules.Shared
	// Decisions are those of this instance.
	Decisions *Decisions

	mu     sync.Mutex // guards what follows
	name   string     // of this instance, drawn
	looked time.Time  // an operator looked here
	asked  changes    // an operator looked at any
	others map[string]*peer
	loaded bool // the document was read before
	err    error
}

// A peer is another instance, as it was read.
type peer struct {
	changes
	first time.Time // it was read
	tops  [3]sketch.Top
}

// changes notes when a number was last seen to change, by the clock of this instance.
// The first number seen is no change.
type changes struct {
	number uint64
	known  bool
	at     time.Time
}

func (c *changes) see(number uint64, now time.Time) {
	if c.known && number != c.number {
		c.at = now
	}
	c.number, c.known = number, true
}

// within reports whether it changed not long ago.
func (c *changes) within(d time.Duration, now time.Time) bool { return now.Sub(c.at) < d }

const (
	// Every is the time from one look at the document to the next.
	every = 3 * time.Second
	// fresh is how long it counts that somebody looked, and what another one wrote.
	fresh = 5 * every
	// gone is after how long the part of an instance that does not change is removed.
	gone     = 20 * every
	maxPeers = 64 // in the document
	peerKeys = 50 // of each measure, at most
	// maxPart bounds the JSON of one part, so that those of all fit into the 1 MiB that
	// stores keep of a document, with their names.
	maxPart  = 1<<20/maxPeers - 64
	maxTries = 4 // of one write, each after that of another
	within   = 2 * time.Second
)

// document is what the instances share.
type document struct {
	Asked uint64           `json:"asked"`
	Parts map[string]*part `json:"parts"`
}

// part is what one instance says.
type part struct {
	Number uint64        `json:"number"`
	Tops   [3]sketch.Top `json:"tops"` // by measure
}

// Top returns what Decisions.Top does, of all instances that were heard of in the last
// 15 seconds, and their number. Of the others it has the 50 top keys of each measure,
// over all rules, or as many as 16 KB hold; the bounds say so. It asks the store for
// nothing: the first call has this instance alone, and others follow within 9 seconds, or
// 12 where an instance has just started. err is why there are none.
func (p *Peers) Top(now time.Time, by sketch.By, rule string, n int) (top sketch.Top, instances int, err error) {
	top, instances = p.Decisions.Top(now, by, rule, n), 1
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = now
	for _, o := range p.others {
		if o.within(fresh, now) {
			top, instances = sketch.Merge(top, o.tops[by].Of(rule), n), instances+1
		}
	}
	return top, instances, p.err
}

// Run reads and writes the document until ctx ends. It begins after 3 seconds and a random
// time of up to 3 more, so that instances that start together do not write together.
func (p *Peers) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(rand.N(every)):
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.look(ctx, time.Now())
		}
	}
}

// look exchanges top keys with the others, and notes the error.
func (p *Peers) look(ctx context.Context, now time.Time) {
	err := p.exchange(ctx, now)
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
}

// exchange reads the document, and writes to it if somebody looks.
func (p *Peers) exchange(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for range maxTries {
		version, data, err := p.Shared.Load(ctx)
		if err != nil {
			return err
		}
		d := documentOf(data)
		shares, writes := p.read(d, now)
		if !writes {
			return nil
		}
		if data, err = p.write(d, now, shares); err != nil {
			return err
		}
		if _, ok, err := p.Shared.Swap(ctx, version, data); ok || err != nil {
			return err
		}
	}
	return errors.New("recent: too many instances write at once")
}

// documentOf reads a document: an empty one, if it is of another version of the
// program.
func documentOf(data []byte) *document {
	d := document{}
	if len(data) > 0 && json.Unmarshal(data, &d) != nil {
		d = document{}
	}
	if d.Parts == nil {
		d.Parts = map[string]*part{}
	}
	return &d
}

// read notes what changed. It reports whether somebody looks, so that this instance is
// to share its keys, and whether it is to write: then, and to remove what is of no use.
func (p *Peers) read(d *document, now time.Time) (shares, writes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == "" {
		p.name = fmt.Sprintf("%016x", rand.Uint64())
		p.others = map[string]*peer{}
	}
	p.asked.see(d.Asked, now)
	for name, is := range d.Parts {
		if name != p.name && is != nil {
			p.hear(name, is, now)
		}
	}
	for name := range p.others {
		if d.Parts[name] == nil {
			delete(p.others, name)
		}
	}
	p.loaded = true
	shares = p.looking(now) || p.asked.within(fresh, now)
	return shares, shares || d.Parts[p.name] != nil || len(p.left(now)) > 0
}

// left returns the names of those that have not written for long.
func (p *Peers) left(now time.Time) (names []string) {
	for name, o := range p.others {
		if !o.within(gone, now) && now.Sub(o.first) >= gone {
			names = append(names, name)
		}
	}
	return names
}

// hear notes what another instance says.
func (p *Peers) hear(name string, is *part, now time.Time) {
	o := p.others[name]
	if o == nil {
		if len(p.others) >= 2*maxPeers {
			return
		}
		o = &peer{first: now}
		o.known = p.loaded // so it is new, and not of long ago
		p.others[name] = o
	}
	o.see(is.Number, now)
	o.tops = is.Tops
}

// looking reports whether somebody looks at this instance.
func (p *Peers) looking(now time.Time) bool {
	return !p.looked.IsZero() && now.Sub(p.looked) < fresh
}

// own returns the top keys of this instance, as many as fit into a part.
func (p *Peers) own(now time.Time) (tops [3]sketch.Top) {
	for by := range tops {
		tops[by] = p.Decisions.Top(now, sketch.By(by), "", peerKeys)
	}
	return fit(tops)
}

// fit leaves about as many keys of each measure as fit into a part, those with the largest
// counts. The bounds on those that are not listed have the others.
func fit(tops [3]sketch.Top) [3]sketch.Top {
	n := peerKeys
	for {
		for by := range tops {
			tops[by] = sketch.Merge(tops[by], sketch.Top{}, n)
		}
		text, err := json.Marshal(part{math.MaxUint64, tops})
		if err != nil || len(text) <= maxPart || n == 0 {
			return tops
		}
		n = min(n-1, n*maxPart/len(text)) // keys are about as long as each other
	}
}

// write puts this instance into the document if it shares its keys, else takes it out;
// and removes those that have gone.
func (p *Peers) write(d *document, now time.Time, shares bool) ([]byte, error) {
	var tops [3]sketch.Top
	if shares {
		tops = p.own(now)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looking(now) {
		d.Asked++
		p.asked.number = d.Asked // it is no change of another
	}
	for _, name := range p.left(now) {
		delete(d.Parts, name)
	}
	if !shares {
		delete(d.Parts, p.name)
		return json.Marshal(d)
	}
	own := d.Parts[p.name]
	if own == nil {
		own = &part{}
		if len(d.Parts) >= maxPeers {
			return nil, fmt.Errorf("recent: more than %d instances share their top keys", maxPeers)
		}
	}
	own.Number++
	own.Tops = tops
	d.Parts[p.name] = own
	return json.Marshal(d)
}
