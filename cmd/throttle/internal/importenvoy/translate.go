package importenvoy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

// translation makes rules of trees.
type translation struct {
	set    rules.Set
	places []place // of the descriptors of the rules
	names  map[string]bool
	notes  notes
	left   int  // patterns that rules leave out
	most   int  // rules
	served bool // by a management server
}

// mostLeft bounds them, as a file of rules has at most 100,000 values.
const mostLeft = 100_000

// step is one entry on the way to a limit.
type step struct {
	way
	shared bool
}

func (t *translation) domain(d *domain) error {
	if err := replacing(d, &t.notes); err != nil {
		return err
	}
	return t.level(d, d.nodes, nil)
}

// level makes the rules of the descriptors of a level, to which steps lead.
func (t *translation) level(d *domain, nodes []*node, steps []step) error {
	for _, w := range ways(nodes) {
		if !w.to.limited {
			continue
		}
		if none, err := t.without(&w); err != nil {
			return err
		} else if none {
			continue
		}
		path := append(slices.Clone(steps), step{w, w.to.share})
		if w.to.limit != nil {
			if err := t.rule(d, path); err != nil {
				return err
			}
		}
		if err := t.level(d, w.to.children, path); err != nil {
			return err
		}
	}
	return nil
}

// without takes away what is tried before a way, and notes what may surprise.
func (t *translation) without(w *way) (none bool, err error) {
	none, ok := w.without()
	t.left += len(w.not)
	switch {
	case !ok:
		return false, w.to.at.fail("more than %d patterns with '*' are tried before this one; a rule leaves out at most that", mostStars)
	case t.left > mostLeft:
		return false, w.to.at.fail("more than %d values lead elsewhere from here and the descriptors before; a file of rules has at most 1 MiB", mostLeft)
	case none && !w.foreign():
		t.notes.add(w.to.at, "no entry %s gets to this descriptor, as those before it take all; left out", words.Quote(w.key))
	case !none && w.foreign():
		t.notes.add(w.to.at, "%s also gets the entries %s, as the reference looks up KEY_VALUE as one text", words.Quote(w.to.text), words.Quote(w.key+"="+w.pattern))
	}
	return none, nil
}

// rule makes the rule of a limit.
func (t *translation) rule(d *domain, path []step) error {
	n := path[len(path)-1].to
	if len(t.set.Rules) == t.most {
		return n.at.tooMany()
	}
	r := rules.Rule{Name: t.name(d.name, path), Limits: []rules.Limit{n.limit.limit}}
	r.Match.Domains = []string{d.name}
	for _, s := range path {
		p := rules.PairPattern{Key: s.key, Value: s.pattern, Not: s.not}
		if p.Value == "*" {
			p.Value = ""
		}
		r.Match.Descriptor = append(r.Match.Descriptor, p)
	}
	r.Shadow.Rule = n.shadow && n.limit.limit != rules.Limit{}
	var err error
	if r.Key, err = keyOf(path); err != nil {
		return err
	}
	r.Lookup = t.served && len(r.Key) > 0
	t.set.Rules, t.places = append(t.set.Rules, r), append(t.places, n.at)
	return nil
}

// keyOf returns the key by which the requests of a limit are counted: all of the
// descriptor, without the values of entries that share one count.
func keyOf(path []step) (rules.Key, error) {
	if !slices.ContainsFunc(path, func(s step) bool { return s.shared }) {
		return rules.Key{"descriptor"}, nil
	}
	var key rules.Key
	for i, s := range path {
		if s.shared || !strings.Contains(s.pattern, "*") {
			continue
		}
		if slices.ContainsFunc(path[:i], func(other step) bool { return other.key == s.key }) {
			return nil, s.to.at.fail("share_threshold in a descriptor with two entries %s, the second of which counts by its value; rules count by the first", words.Quote(s.key))
		}
		key = append(key, "entry:"+s.key)
	}
	return key, nil
}

// compile checks the rules.
func (t *translation) compile() error {
	if t.set.Rules == nil {
		t.set.Rules = []rules.Rule{}
	}
	_, err := rules.Compile(t.set)
	flaw := (*rules.Error)(nil)
	if !errors.As(err, &flaw) {
		return err
	}
	i := 0
	if _, e := fmt.Sscanf(flaw.Path, "rules[%d]", &i); e != nil || i >= len(t.places) {
		return err
	}
	_, path, _ := strings.Cut(flaw.Path, ".")
	return t.places[i].fail("its rule would not be taken: %s: %s", path, flaw.What)
}

// replacing refuses limits that replace others of a request, unless that has no effect.
func replacing(d *domain, n *notes) error {
	refusing := map[string]place{}
	var all []replaced
	each(d.nodes, func(one *node) {
		if one.limit == nil {
			return
		}
		if one.refuses() && one.limit.name != "" {
			refusing[one.limit.name] = one.at
		}
		all = append(all, one.limit.replaces...)
	})
	for _, r := range all {
		if at, is := refusing[r.name]; is {
			return r.at.fail("replaces: rules decide for each descriptor by itself, and this drops the limit %s of %s in a request that has both; remove it, or let Envoy send one of the two descriptors", words.Quote(r.name), at)
		}
		n.add(r.at, "replaces: no limit of the domain that refuses has the name %s; left out", words.Quote(r.name))
	}
	return nil
}

// each calls f for the descriptors of a tree.
func each(nodes []*node, f func(*node)) {
	for _, n := range nodes {
		f(n)
		each(n.children, f)
	}
}
