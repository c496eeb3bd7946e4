package importenvoy

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// keys are all that the reference knows, anywhere in a file.
var keys = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "unit", "requests_per_unit", "unlimited", "name",
	"replaces", "shadow_mode", "quota_mode", "share_threshold", "detailed_metric", "value_to_metric", "metadata",
}

// domain is a file.
type domain struct {
	name  string
	at    place // of its name
	nodes []*node
}

// reading is files being read, one after the other. It keeps the first thing that is
// wrong.
type reading struct {
	file  string
	paths []string // of what stands at each line; nil: in a file
	err   *tree.Error
	notes *notes
	count int // of descriptors, of all files
}

func (r *reading) at(n *tree.Node) place { return r.where(n.Line, n.Column) }

// where is a place in a file, or, of a resource, its name and a path.
func (r *reading) where(line, column int) place {
	if r.paths == nil {
		return place{r.file, line, column}
	}
	return place{file: strings.TrimSpace(r.file + " " + r.paths[line-1])}
}

func (r *reading) fail(n *tree.Node, format string, a ...any) {
	if r.err == nil {
		r.err = r.at(n).fail(format, a...)
	}
}

// parse reads the text of a file.
func (r *reading) parse(data []byte) (*domain, error) {
	root, err := tree.Parse(r.file, data)
	if err != nil {
		if flaw := (*tree.Error)(nil); errors.As(err, &flaw) && flaw.What == tree.Empty {
			flaw.What = "empty; write domain: NAME and descriptors"
		}
		return nil, err
	}
	return r.domain(root)
}

func (r *reading) domain(root *tree.Node) (*domain, error) {
	if root.Kind != tree.Map {
		r.fail(root, "must be a mapping with domain and descriptors")
	}
	r.known(root)
	d := &domain{at: r.at(root)}
	for _, f := range r.fields(root, "the file", "domain", "descriptors") {
		if f.Name == "domain" {
			d.name, d.at = r.text(f.Name, f.Value), r.at(f.Value)
		} else {
			d.nodes = r.descriptors(f.Value)
		}
	}
	switch {
	case r.err != nil:
	case d.name == "":
		r.err = d.at.fail("no domain; write domain: NAME, as Envoy sends it")
	case strings.Contains(d.name, "*"):
		r.err = d.at.fail("domain %s: the reference takes '*' as it is, and rules take it as any text; name the domain without it, here and in Envoy", words.Quote(d.name))
	case len(d.name) > mostText:
		r.err = d.at.fail("the domain has %d bytes; rules take at most %d", len(d.name), mostText)
	}
	if r.err != nil {
		return nil, r.err
	}
	return d, nil
}

// known refuses keys that the reference does not know, and values that it does not
// take, wherever they stand.
func (r *reading) known(n *tree.Node) {
	for _, f := range n.Fields {
		if !slices.Contains(keys, f.Name) && r.err == nil {
			r.err = r.where(f.Line, f.Column).fail("key %s is not known; %s", words.Quote(f.Name), right(f.Name))
		}
		if f.Name != "metadata" { // whose content is free
			r.value(f)
		}
	}
}

// right says what would be right in place of an unknown key.
func right(key string) string {
	switch key {
	case "apiVersion", "kind":
		return "a manifest of Kubernetes is not read; write what is in the data of the ConfigMap to files"
	}
	if lower := strings.ToLower(key); slices.Contains(keys, lower) {
		return "write " + lower
	}
	return words.Meant(key, keys)
}

func (r *reading) value(f tree.Field) {
	switch f.Value.Kind {
	case tree.Map:
		r.known(f.Value)
	case tree.List:
		for _, item := range f.Value.Items {
			if item.Kind != tree.Map {
				r.fail(item, "%s: %s in the list is not a mapping; write - key: NAME", f.Name, item.Show())
			}
			r.known(item)
		}
	case tree.Number:
		if _, err := whole(f.Value.Text); err != nil {
			r.fail(f.Value, "%s: %s is not a whole number that fits; write one, or put text in quotes", f.Name, f.Value.Show())
		}
	}
}

// whole reads a number as the reference does: 0x10, 010 and 1_000 are numbers too.
func whole(text string) (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
}

// fields returns those of the fields of n that are read there, and notes the others,
// which the reference ignores.
func (r *reading) fields(n *tree.Node, in string, read ...string) (all []tree.Field) {
	for _, f := range n.Fields {
		if slices.Contains(read, f.Name) {
			all = append(all, f)
		} else if r.err == nil {
			r.notes.add(r.where(f.Line, f.Column), "%s is ignored in %s, as the reference does%s", f.Name, in, belongs(f.Name))
		}
	}
	return all
}

// belongs says where a misplaced key would count.
func belongs(key string) string {
	switch key {
	case "unit", "requests_per_unit", "unlimited", "name", "replaces":
		return "; it belongs into rate_limit"
	case "shadow_mode", "quota_mode", "share_threshold", "detailed_metric", "value_to_metric", "metadata", "rate_limit":
		return "; it belongs beside key"
	}
	return ""
}

// text reads a value as text.
func (r *reading) text(name string, n *tree.Node) string {
	if n.Kind == tree.Map || n.Kind == tree.List {
		r.fail(n, "%s: must be text, not %s", name, n.Show())
	}
	return n.Text
}

// yes reads true or false. The reference takes the other words of YAML 1.1 too.
func (r *reading) yes(name string, n *tree.Node) bool {
	switch n.Kind {
	case tree.Null:
		return false
	case tree.Bool:
		return n.Text == "true"
	}
	word := strings.ToLower(n.Text)
	on := word == "yes" || word == "y" || word == "on"
	if n.Kind != tree.Text || n.Quoted || !on && word != "no" && word != "n" && word != "off" {
		r.fail(n, "%s: %s; write true or false without quotes", name, n.Show())
	}
	return on
}
