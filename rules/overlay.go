package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Overlay holds the changes by hand while programs run, on top of the rules of their
// sources: raises, blocks, exemptions, switches, the kill switch. It is data, shared
// by all instances, see [Stack]. The zero Overlay changes nothing.
type Overlay struct {
	// Serial counts the changes. One with a lower Serial is older.
	Serial int64 `json:"serial"`
	// Kill counts beside that of the Set: nothing is refused while either is on.
	Kill Kill `json:"kill,omitzero"`
	// Deny and Allow are added to those of the Set.
	Deny  []Entry `json:"deny,omitempty"`
	Allow []Entry `json:"allow,omitempty"`
	// Overrides are added by the name of their rule: they count before those of
	// the file that are as exact, and replace those with the same key.
	Overrides map[string][]Override `json:"overrides,omitempty"`
	// Switches are cases by the name of their switch, which count before those of
	// the file. One that the file does not have is added.
	Switches map[string][]Case `json:"switches,omitempty"`
	// Set replaces the rules of all sources: a version that was brought back. If
	// nil, those of the sources count.
	Set *Set `json:"set,omitempty"`
	// Log has the latest 200 changes, oldest first; fewer if they exceed 1 MiB.
	Log []Change `json:"log,omitempty"`
}

// Change is a change of an Overlay, for the audit log.
type Change struct {
	// What says in words what was changed.
	What []string `json:"what,omitempty"`
	// Note says when, why and by whom.
	Note
}

const maxLog = 200

// UnmarshalJSON reads an Overlay as strictly as Parse reads a Set.
func (o *Overlay) UnmarshalJSON(data []byte) error {
	root, err := ReadNode(data)
	if err != nil {
		return err
	}
	type plain Overlay // without this method
	var read plain
	if err := root.Decode(&read); err != nil {
		return err
	}
	*o = Overlay(read)
	return nil
}

// PutDeny adds an entry to Deny, in place of that with the same text. One that
// has ended removes it.
func (o *Overlay) PutDeny(e Entry) { o.Deny = put(o.Deny, e, sameEntry) }

// PutAllow adds an entry to Allow, in place of that with the same text. One that
// has ended removes it.
func (o *Overlay) PutAllow(e Entry) { o.Allow = put(o.Allow, e, sameEntry) }

// PutOverride adds an override of a rule, in place of that with the same key. One
// that has ended removes it.
func (o *Overlay) PutOverride(rule string, v Override) {
	if o.Overrides == nil {
		o.Overrides = map[string][]Override{}
	}
	o.Overrides[rule] = put(o.Overrides[rule], v, sameOverride)
}

// PutCase adds a case of a switch, in place of that with the same key. One that
// has ended removes it.
func (o *Overlay) PutCase(name string, c Case) {
	if o.Switches == nil {
		o.Switches = map[string][]Case{}
	}
	o.Switches[name] = put(o.Switches[name], c, sameCase)
}

func sameEntry(a, b Entry) bool       { return a.Text == b.Text }
func sameOverride(a, b Override) bool { return slices.Equal(a.Key, b.Key) }
func sameCase(a, b Case) bool         { return a.Key == b.Key }

// put puts one first, in place of what is the same.
func put[T any](all []T, one T, same func(a, b T) bool) []T {
	return append([]T{one}, without(all, []T{one}, same)...)
}

// without returns all but what is the same as one of others.
func without[T any](all, others []T, same func(a, b T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(a T) bool {
		return slices.ContainsFunc(others, func(b T) bool { return same(a, b) })
	})
}

// Trim returns the Overlay without what has ended at now.
func (o Overlay) Trim(now time.Time) Overlay {
	if o.Kill.Ended(now) || !o.Kill.On {
		o.Kill = Kill{}
	}
	o.Deny = trim(o.Deny, func(e Entry) bool { return e.Ended(now) })
	o.Allow = trim(o.Allow, func(e Entry) bool { return e.Ended(now) })
	o.Overrides = trimAll(o.Overrides, func(v Override) bool { return v.Ended(now) })
	o.Switches = trimAll(o.Switches, func(c Case) bool { return c.Ended(now) })
	o.Log = o.Log[max(len(o.Log)-maxLog, 0):]
	return o
}

func trim[T any](all []T, ended func(T) bool) []T { return slices.DeleteFunc(slices.Clone(all), ended) }

func trimAll[T any](all map[string][]T, ended func(T) bool) map[string][]T {
	done := map[string][]T{}
	for name, list := range all {
		if list = trim(list, ended); len(list) > 0 {
			done[name] = list
		}
	}
	return done
}

// Over returns the rules of a Set with the Overlay on top. left has a line for each
// change that is left out, as the Set has no such rule or the change does not fit
// it. Neither o nor s is changed. The Version gets the Serial, unless nothing is on
// top.
func (o Overlay) Over(s Set) (merged Set, left []string) {
	if o.Set != nil {
		s = *o.Set
	}
	s.Kill = o.Kill.or(s.Kill)
	deny, noDeny := entriesThatFit("deny", o.Deny)
	allow, noAllow := entriesThatFit("allow", o.Allow)
	s.Deny, s.Allow = slices.Concat(deny, s.Deny), slices.Concat(allow, s.Allow)
	s.Rules, left = o.overRules(s.Rules, bitsOf(s))
	left = slices.Concat(noDeny, noAllow, left)
	s.Switches = o.overSwitches(s.Switches)
	if o.any() {
		s.Version = clip(cmp.Or(s.Version, digestName(s)), maxName-21) + fmt.Sprintf(".%d", o.Serial)
	}
	return s, left
}

// entriesThatFit returns the entries of a list but those PART=PATTERN that no request can
// have, and says of each of these why: an earlier release may have taken them.
func entriesThatFit(list string, all []Entry) (fit []Entry, left []string) {
	for _, e := range all {
		part, _, patterned := strings.Cut(e.Text, "=")
		k := &compiler{c: new(Compiled), known: map[string]bool{part: true}} // as far as it matters here
		if k.list("", []Entry{e}); patterned && k.err != nil {
			left = append(left, fmt.Sprintf("%s of %s: %s", list, clip(e.Text, 64), k.err.What))
			continue
		}
		fit = append(fit, e)
	}
	return fit, left
}

// any reports whether anything is on top of the rules of the sources.
func (o *Overlay) any() bool {
	return o.Kill.On || len(o.Deny)+len(o.Allow)+len(o.Overrides)+len(o.Switches) > 0 || o.Set != nil
}

func (o *Overlay) overRules(all []Rule, bits addressBits) (done []Rule, left []string) {
	done = slices.Clone(all)
	for _, name := range slices.Sorted(maps.Keys(o.Overrides)) {
		i := slices.IndexFunc(done, func(r Rule) bool { return r.Name == name })
		if i < 0 {
			for _, v := range o.Overrides[name] {
				left = append(left, leftOut(name, v, "there is no such rule"))
			}
			continue
		}
		fit, unfit := o.fitting(name, done[i], bits)
		left = append(left, unfit...)
		// One that does not end would never let the file's with the same key count.
		done[i].Overrides = slices.Concat(fit, without(done[i].Overrides, endless(fit), sameOverride))
	}
	return done, left
}

func (o *Overlay) overSwitches(all []Switch) []Switch {
	done := slices.Clone(all)
	for _, name := range slices.Sorted(maps.Keys(o.Switches)) {
		i := slices.IndexFunc(done, func(s Switch) bool { return s.Name == name })
		if i < 0 {
			i, done = len(done), append(done, Switch{Name: name})
		}
		done[i].Cases = slices.Concat(o.Switches[name], done[i].Cases)
	}
	return done
}

// Over merges s and under, the rules of two sources, where s wins. A rule or switch
// of s replaces that of the same name in under, at its place; those that under does
// not have come last. The Deny and Allow lists of s come before those of under. Of two
// Kills that are on the one that ends later counts. If both have a Version, it
// becomes that of under, a dot, and that of s. The Serial becomes zero, as each
// source has its own numbers. Of the other fields that of s counts, or that of under
// where it is zero in s. Neither s nor under is changed.
func (s Set) Over(under Set) Set {
	if s.Version != "" && under.Version != "" {
		s.Version = clip(under.Version, (maxName-1)/2) + "." + clip(s.Version, (maxName-1)/2)
	}
	s.Version = cmp.Or(s.Version, under.Version)
	s.Serial = 0
	s.Kill = s.Kill.or(under.Kill)
	if len(s.Proxies.Trusted) == 0 {
		s.Proxies = under.Proxies
	}
	s.IPv4Prefix = cmp.Or(s.IPv4Prefix, under.IPv4Prefix)
	s.IPv6Prefix = cmp.Or(s.IPv6Prefix, under.IPv6Prefix)
	s.Deny = slices.Concat(s.Deny, under.Deny)
	s.Allow = slices.Concat(s.Allow, under.Allow)
	s.Rules = over(s.Rules, under.Rules, func(a, b Rule) bool { return a.Name == b.Name })
	s.Switches = over(s.Switches, under.Switches, func(a, b Switch) bool { return a.Name == b.Name })
	return s
}

// over replaces what is the same and appends the rest.
func over[T any](upper, under []T, same func(a, b T) bool) []T {
	done := slices.Clone(under)
	for _, u := range upper {
		if i := slices.IndexFunc(under, func(x T) bool { return same(x, u) }); i >= 0 {
			done[i] = u
		} else {
			done = append(done, u)
		}
	}
	return done
}

// clone returns a copy that shares nothing.
func (o Overlay) clone() (Overlay, error) {
	data, err := json.Marshal(o)
	var copied Overlay
	if err == nil {
		err = json.Unmarshal(data, &copied)
	}
	return copied, err
}
