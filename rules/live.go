package rules

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Stack puts the rules of several sources on top of each other, in a fixed order,
// and an [Overlay] on top of these. Whatever changes, the whole is checked, and put
// into use if it is good: a bad version of one source is refused whole, and its old
// one stays. It keeps the latest versions. It is safe for concurrent use; it must
// not be copied, nor its fields changed, after first use.
//
//	stack := rules.Stack{
//		Sources: []*rules.Source{{Fetch: rules.FromFile("rules.json"), Every: 5 * time.Second}, {Fetch: rules.FromURL(nil, url)}},
//		Shared:  &rules.File{Path: "overlay.json"},
//	}
//	err := stack.Refresh(ctx) // now, so that the first request is limited
//	go stack.Run(ctx)         // until ctx ends
type Stack struct {
	// Sources are the sources, the lowest first: see [Set.Over]. Their Known is
	// that of the Stack, and their Live is not used.
	Sources []*Source
	// Shared holds the Overlay. If nil, there is none.
	Shared Shared
	// Keep is a file, of this Stack alone, with the last good Overlay, for a start
	// of the program while Shared is unreachable, or has lost it. If empty, none is kept.
	Keep string
	// Every is the time from one look at Shared to the next, varied by a tenth; each
	// reads the whole Overlay once. If zero or below, 0.8 seconds: what another
	// instance wrote is in use within a second, for 1.25 reads a second.
	Every time.Duration
	// Timeout bounds one call of Shared. If zero or below, 10 seconds.
	Timeout time.Duration
	// Known are the names that [Request.Value] and [Request.Cost] understand. Rules
	// that use another name are refused. If empty, they understand none.
	Known []string
	// MaxVersions bounds the versions that are kept in memory, each with the text of
	// its rules, twice. If zero or below, 20.
	MaxVersions int
	// OnSwap is called with each version that was put into use, in the goroutine
	// that did. Where two sources change at once it may be called concurrently. If
	// nil, nothing is called.
	OnSwap func(Version)
	// OnState is called with the Status of the Overlay after each look at Shared
	// and each Edit. If nil, nothing is called.
	OnState func(Status)

	// Live holds the version in use. Handlers use a pointer to it.
	Live Live

	once sync.Once
	turn chan struct{} // of looks at Shared and edits

	mu       sync.Mutex // guards what follows, and is held while a version is checked
	begun    bool       // each source has been asked once
	layers   []*Set     // the last good ones of the Sources
	overlay  Overlay
	seen     string // the version of Shared that overlay is, or one that was refused
	status   Status // of the overlay
	left     []string
	versions []Version
}

// Version is a version that a [Stack] has put into use.
type Version struct {
	// Name is the Version of the rules. Where earlier rules that are kept have the
	// same, "-" and 12 digits of a digest follow.
	Name string
	// Since is when it was put into use.
	Since time.Time
	// Changes say what changed from the version before, see [Diff].
	Changes []string

	base, merged []byte // the Sets in JSON; base is without what is on top
}

// Set returns the rules, with the Overlay of that time on top.
func (v *Version) Set() Set { return filled(v.merged) }

const (
	defaultLook     = 800 * time.Millisecond // with its tenth and the read itself below a second
	defaultVersions = 20
	maxEdits        = 16 // tries of one Edit, each after that of another
	// clocksDiffer is by how much the clocks of instances may differ, so that none of them
	// drops what still holds in another.
	clocksDiffer = 5 * time.Minute
)

// setUp makes the parts of a Stack.
func (t *Stack) setUp() {
	t.turn = make(chan struct{}, 1)
	t.layers = make([]*Set, len(t.Sources))
	for i, s := range t.Sources {
		s.Known = t.Known
		s.into = func(c *Compiled) error {
			set := c.Set()
			return t.change(time.Now(), func(layers []*Set, _ *Overlay) { layers[i] = &set })
		}
	}
}

// Run refreshes the sources and looks at the Overlay, each at its own times, until
// ctx ends.
func (t *Stack) Run(ctx context.Context) {
	t.once.Do(t.setUp)
	if !t.hasBegun() {
		_ = t.Refresh(ctx) // it is in the Status of each
	}
	var all sync.WaitGroup
	for _, s := range t.Sources {
		all.Go(func() { s.Run(ctx) })
	}
	if t.Shared != nil {
		all.Go(func() { t.watch(ctx) })
	}
	all.Wait()
}

// watch looks at Shared until ctx ends.
func (t *Stack) watch(ctx context.Context) {
	every := min(positive(t.Every, defaultLook), longestEvery)
	pause := func() time.Duration { return every - every/10 + rand.N(every/5+1) }
	timer := time.NewTimer(pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		_ = t.Look(ctx) // it is in the Status
		timer.Reset(pause())
	}
}

func (t *Stack) hasBegun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

// Refresh refreshes all sources, in their order, and looks at the Overlay meanwhile.
// Nothing is put into use before each has been asked once. The error joins theirs;
// what failed keeps its old version.
func (t *Stack) Refresh(ctx context.Context) error {
	t.once.Do(t.setUp)
	var errs []error
	var overlay error
	asked := make(chan struct{})
	var all sync.WaitGroup // a source that hangs does not keep the Overlay out
	if t.Shared != nil {
		all.Go(func() { overlay = t.lookAfter(ctx, asked) })
	}
	for _, s := range t.Sources {
		errs = append(errs, s.Refresh(ctx))
	}
	close(asked)
	all.Wait()
	errs = append(errs, overlay)
	t.mu.Lock()
	begun := t.begun
	t.begun = true
	t.mu.Unlock()
	if !begun {
		errs = append(errs, t.change(time.Now(), func([]*Set, *Overlay) {}))
	}
	return errors.Join(errs...)
}

// change changes the layers or the overlay and puts the whole into use, or, if it
// is bad, changes nothing and says why.
func (t *Stack) change(now time.Time, change func(layers []*Set, o *Overlay)) error {
	v, err := t.put(now, change)
	if v != nil && t.OnSwap != nil {
		t.OnSwap(*v)
	}
	return err
}

// put changes the layers or the overlay; nil if that makes no other version.
func (t *Stack) put(now time.Time, change func(layers []*Set, o *Overlay)) (*Version, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	layers, overlay := slices.Clone(t.layers), t.overlay
	change(layers, &overlay)
	base := t.base(layers)
	set, left := overlay.Trim(now).Over(base)
	c, err := Compile(set, t.Known...)
	if err != nil {
		return nil, lineError{fmt.Errorf("%w (of the sources and the overlay together)", err)}
	}
	t.layers, t.overlay, t.left = layers, overlay, left
	old := t.Live.Load()
	if !t.begun || old != nil && old.digest == c.digest {
		return nil, nil
	}
	v := Version{Name: t.nameOf(c), Since: now, Changes: Diff(old.Set(), set), merged: c.canon}
	if overlay.Set != nil {
		base = *overlay.Set
	}
	if v.base, err = json.Marshal(base); err != nil {
		return nil, err
	}
	t.keep(v)
	t.Live.Swap(c)
	return &v, nil
}

// nameOf returns the name of a version, with digits of its digest where a version
// kept, with other rules, has that name.
func (t *Stack) nameOf(c *Compiled) string {
	taken := func(v Version) bool { return v.Name == c.version && !bytes.Equal(v.merged, c.canon) }
	if !slices.ContainsFunc(t.versions, taken) {
		return c.version
	}
	return clip(c.version, maxName-13) + "-" + hex.EncodeToString(c.digest[:6])
}

// base returns the layers on top of each other.
func (t *Stack) base(layers []*Set) (s Set) {
	first := true
	for _, l := range layers {
		switch {
		case l == nil:
		case first:
			s, first = *l, false
		default:
			s = l.Over(s)
		}
	}
	return s
}

// keep keeps a version, and forgets the oldest beyond the bound.
func (t *Stack) keep(v Version) {
	most := t.MaxVersions
	if most <= 0 {
		most = defaultVersions
	}
	t.versions = append(slices.Clone(t.versions[max(len(t.versions)+1-most, 0):]), v)
}

// Versions returns the versions kept, the one in use last.
func (t *Stack) Versions() []Version {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.versions)
}

// Overlay returns the Overlay in use. What it holds must not be changed, see Edit.
// left has a line for each part that no longer applies, as the rules have changed.
func (t *Stack) Overlay() (o Overlay, left []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.overlay, t.left
}

// Status returns the status of the Overlay, as the [Status] of a [Source] is that of
// its rules: which Overlay is in use, its Serial being the Version, and how the last
// look at Shared went. It is zero before the first look, and if Shared is nil. It
// tells nothing of the Sources: call the Status of each.
func (t *Stack) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Live holds the version of the rules in use, which may be swapped while
// requests are decided. The zero value limits no request. It is safe for
// concurrent use and must not be copied.
//
// Call Load once for each request and use its result, so that all of one
// decision is of one version.
type Live struct {
	now atomic.Pointer[Compiled]
}

// Load returns the version in use: nil, which limits no request, before the
// first Swap.
func (l *Live) Load() *Compiled { return l.now.Load() }

// Swap puts another version into use and returns the one before. Decisions that
// have begun end under the version they began with.
func (l *Live) Swap(c *Compiled) (old *Compiled) { return l.now.Swap(c) }
