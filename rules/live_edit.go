package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"
)

var (
	errNoShared = errors.New("rules: the Stack has no Shared")
	errLost     = errors.New("there is none")
)

// Look reads the Overlay now and puts it into use if it has changed. Where Shared
// has lost it, or has come back with an older one, it is written again. After an
// error the old one stays. At the start, after an error or where Shared has none, that
// in Keep is used.
func (t *Stack) Look(ctx context.Context) error {
	if t.Shared == nil {
		return errNoShared
	}
	t.once.Do(t.setUp)
	return t.lookAfter(ctx, nil)
}

// lookAfter looks at Shared. What it finds at the start goes on top of the sources
// when these have been asked, or ctx ends.
func (t *Stack) lookAfter(ctx context.Context, asked <-chan struct{}) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if asked == nil || t.hasBegun() {
		ended := make(chan struct{})
		close(ended)
		asked = ended
	}
	err = t.look(ctx, asked)
	if err != nil {
		err = lineError{fmt.Errorf("rules: overlay: %w", err)}
		if kept := t.fallBack(time.Now()); kept != nil {
			err = lineError{fmt.Errorf("%w; and the kept %s: %w", err, t.Keep, kept)}
		}
	}
	t.looked(time.Now(), err)
	return err
}

// enter waits until no other look at Shared is in flight.
func (t *Stack) enter(ctx context.Context) (leave func(), err error) { return takeTurn(ctx, t.turn) }

// looked notes the end of a look.
func (t *Stack) looked(now time.Time, err error) {
	t.mu.Lock()
	t.status.Refreshes++
	t.status.Err = err
	if err != nil {
		t.status.Failures++
	} else {
		t.status.Confirmed, t.status.From = now, Fetched
	}
	status := t.status
	t.mu.Unlock()
	if t.OnState != nil {
		t.OnState(status)
	}
}

// load reads the Overlay from Shared.
func (t *Stack) load(ctx context.Context) (version string, o Overlay, err error) {
	ctx, cancel := context.WithTimeout(ctx, positive(t.Timeout, defaultTimeout))
	defer cancel()
	version, data, err := t.Shared.Load(ctx)
	if err == nil && len(data) > 0 {
		if flaw := o.UnmarshalJSON(data); flaw != nil {
			err = damaged{flaw}
		}
	}
	return version, o, err
}

// damaged is the error of a document in Shared with a flaw. It is no *Error, which would
// say that a change does not fit.
type damaged struct{ flaw error }

// Error says what is to be done, too.
func (d damaged) Error() string {
	return fmt.Sprintf("what is there cannot be used: %v; delete it, and an instance that has a good one writes that again", d.flaw)
}

// Unchanged reports that nothing was written over it.
func (d damaged) Unchanged() bool { return true }

func (t *Stack) look(ctx context.Context, asked <-chan struct{}) error {
	for range maxEdits {
		version, o, err := t.load(ctx)
		select {
		case <-asked:
		case <-ctx.Done(): // what was loaded counts all the same
		}
		if err != nil {
			return err
		}
		if version == "" { // it was lost, or there was none yet, and none is kept
			if err := t.fallBack(time.Now()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return errLost // beside which stands why what is kept is not in use
			}
		}
		have, seen := t.have()
		switch {
		case o.Serial < have.Serial:
			if ok, err := t.restore(ctx, version, have); ok || err != nil {
				return err
			}
			continue // another instance was faster
		case version == seen && t.Status().KeepErr == nil:
			return nil // else it is kept now
		}
		return t.use(time.Now(), version, o)
	}
	return errors.New("others change it all the time")
}

func (t *Stack) have() (o Overlay, seen string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.overlay, t.seen
}

// restore writes the Overlay in use over an older one.
func (t *Stack) restore(ctx context.Context, version string, have Overlay) (ok bool, err error) {
	now, ok, err := t.swap(ctx, version, &have)
	if err != nil {
		return false, fmt.Errorf("an older one is there than %d, which stays in use: %w", have.Serial, err)
	}
	if !ok {
		return false, nil
	}
	return true, t.use(time.Now(), now, have)
}

// swap writes an Overlay to Shared, with as much of its log as there is room for.
func (t *Stack) swap(ctx context.Context, old string, o *Overlay) (version string, ok bool, err error) {
	data, err := o.text()
	for err != nil && len(o.Log) > 1 {
		o.Log = o.Log[len(o.Log)-len(o.Log)/2:]
		data, err = o.text()
	}
	if err != nil {
		return "", false, err
	}
	ctx, cancel := context.WithTimeout(ctx, positive(t.Timeout, defaultTimeout))
	defer cancel()
	return t.Shared.Swap(ctx, old, data)
}

// text returns an Overlay as text that can be read again.
func (o *Overlay) text() ([]byte, error) {
	data, err := json.Marshal(o)
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxSize:
		return nil, &Error{What: fmt.Sprintf("it would be longer than %d bytes; let some of it end", MaxSize)}
	}
	if err := new(Overlay).UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("it could not be read again: %w", err)
	}
	return data, nil
}

// use puts an Overlay into use and keeps it.
func (t *Stack) use(now time.Time, version string, o Overlay) error {
	if err := t.change(now, func(_ []*Set, in *Overlay) { *in = o }); err != nil {
		return err
	}
	var kept error
	if t.Keep != "" {
		data, err := json.Marshal(o)
		if kept = err; err == nil {
			kept = writeKept(t.Keep, data)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = version
	if serial := strconv.FormatInt(o.Serial, 10); t.status.Version != serial {
		t.status.Version, t.status.Since = serial, now
		t.status.Swaps++
	}
	t.status.KeepErr = nil
	if kept != nil {
		t.status.KeepErr = lineError{fmt.Errorf("rules: %w", kept)}
	}
	return nil
}

// fallBack uses the kept Overlay if none is in use.
func (t *Stack) fallBack(now time.Time) error {
	if t.Keep == "" || t.Status().Swaps > 0 {
		return nil
	}
	data, err := readFile(t.Keep)
	var o Overlay
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err == nil {
		err = t.change(now, func(_ []*Set, in *Overlay) { *in = o })
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Version, t.status.Since, t.status.From = strconv.FormatInt(o.Serial, 10), now, Kept
	t.status.Swaps++
	if info, err := os.Stat(t.Keep); err == nil {
		t.status.Confirmed = info.ModTime()
	}
	return nil
}

// Edit changes the Overlay in Shared, and so in all instances, and puts it into use
// here. change gets a copy of it, and is called again if another instance was
// faster; its error is returned. The change is logged with why and by; its time, if
// zero, is now. What has ended for five minutes is dropped: until then it may hold in
// instances whose clocks are behind. A change that would not fit the rules, or in
// [MaxSize], is refused by an [*Error]. After an error of Shared it is not known whether
// it was written.
func (t *Stack) Edit(ctx context.Context, n Note, change func(*Overlay) error) error {
	if t.Shared == nil {
		return errNoShared
	}
	t.once.Do(t.setUp)
	if n.At.IsZero() {
		n.At = time.Now().UTC()
	}
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for range maxEdits {
		ok, err := t.edit(ctx, n, change)
		if err != nil {
			return lineError{fmt.Errorf("rules: overlay: %w", err)}
		}
		if ok {
			t.looked(time.Now(), nil)
			return nil
		}
	}
	return errors.New("rules: overlay: others change it all the time; try again")
}

// edit tries to change the Overlay; not ok if another instance was faster.
func (t *Stack) edit(ctx context.Context, n Note, change func(*Overlay) error) (ok bool, err error) {
	version, o, err := t.load(ctx)
	if err != nil {
		return false, err
	}
	if have, _ := t.have(); o.Serial < have.Serial { // it was lost
		o = have
	}
	next, err := o.clone()
	if err != nil {
		return false, err
	}
	if err := change(&next); err != nil {
		return false, err
	}
	now := time.Now()
	what, err := t.check(o.Trim(now), next.Trim(now))
	if err != nil {
		return false, err
	}
	next = next.Trim(now.Add(-clocksDiffer))
	next.Serial = o.Serial + 1
	next.Log = append(next.Log[max(len(next.Log)+1-maxLog, 0):], Change{What: what, Note: n})
	version, ok, err = t.swap(ctx, version, &next)
	if err != nil || !ok {
		return false, err
	}
	return true, t.use(time.Now(), version, next)
}

// check checks a change of the Overlay against the rules in use, and says in words
// what it changes.
func (t *Stack) check(old, next Overlay) (what []string, err error) {
	t.mu.Lock()
	base := t.base(t.layers)
	t.mu.Unlock()
	before, _ := old.Over(base)
	after, left := next.Over(base)
	old.Set = next.Set // overrides that no longer fit because of it are left out, as ever
	_, known := old.Over(base)
	for _, l := range left {
		if !slices.Contains(known, l) {
			return nil, &Error{What: l}
		}
	}
	if _, err := Compile(after, t.Known...); err != nil {
		if _, flaw := Compile(before, t.Known...); flaw != nil {
			return nil, damaged{flaw}
		}
		return nil, err
	}
	before.Version, after.Version = "", "" // which says nothing new
	return Diff(before, after), nil
}

// BringBack rolls back: it puts the rules of an earlier version into use in place of
// those of all sources, in all instances, until Edit sets the Set of the Overlay to nil. Other
// changes by hand stay as they are.
func (t *Stack) BringBack(ctx context.Context, name string, n Note) error {
	var names []string
	for _, v := range slices.Backward(t.Versions()) {
		if v.Name == name {
			return t.Edit(ctx, n, func(o *Overlay) error {
				base := filled(v.base)
				o.Set = &base
				return nil
			})
		}
		names = append(names, v.Name)
	}
	return fmt.Errorf("rules: no version %.40q is kept; there are %q", name, names)
}
