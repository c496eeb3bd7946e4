package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/near"
)

// maxItems bounds the lists of a file, and its maps.
const maxItems = 1000

// decoder reads the tree of one file. It keeps the first thing that is wrong.
type decoder struct {
	*files
	file string
}

// failNode refuses the value at a path.
func (d *decoder) failNode(n *tree.Node, path, format string, a ...any) {
	d.fail(d.file, n.Line, n.Column, "%s", strings.TrimPrefix(path+": ", ": ")+fmt.Sprintf(format, a...))
}

// value reads n into v, by the description in f of the field that it is the value of.
func (d *decoder) value(n *tree.Node, v reflect.Value, f field, path string) {
	d.places[path] = place{d.file, n.Line, n.Column}
	if n.Kind == tree.Null {
		d.failNode(n, path, "empty; leave it out, or write %s", f.shape(v.Type()))
		return
	}
	if k, ok := kinds[v.Type()]; ok {
		d.scalar(n, v, k, f, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), f, path)
	case reflect.Struct:
		d.section(n, v, path)
	case reflect.Slice:
		d.list(n, v, f, path)
	case reflect.Map:
		d.table(n, v, f, path)
	default:
		panic("config: no way to read a " + v.Type().String())
	}
}

// scalar reads a value that is neither a list nor a mapping.
func (d *decoder) scalar(n *tree.Node, v reflect.Value, k kind, f field, path string) {
	if n.Kind == tree.List || n.Kind == tree.Map {
		d.failNode(n, path, "must be %s, not %s", f.shape(v.Type()), strings.Trim(n.Show(), "()"))
		return
	}
	if n.Kind != k.kind && n.Raw == "" {
		d.failNode(n, path, "%s: must be %s%s", show(n, v.Type()), f.shape(v.Type()), d.hint(n, v, k, f))
		return
	}
	if what := k.read(d, n.Text, v, f, k); what != "" {
		d.failNode(n, path, "%s: %s", show(n, v.Type()), what)
	}
}

// hint says how to write a scalar of another kind, if that would be right.
func (d *decoder) hint(n *tree.Node, v reflect.Value, k kind, f field) string {
	reads := func(text string) bool { return k.read(d, text, reflect.New(v.Type()).Elem(), f, k) == "" }
	switch {
	case k.kind != tree.Text && n.Kind == tree.Text && reads(n.Text):
		return "; write " + n.Text + " without quotes"
	case k.unit != "" && reads(n.Text+k.unit):
		return "; write " + n.Text + k.unit
	case k.kind == tree.Text && k.unit == "":
		return "; write it in quotes"
	}
	return ""
}

// show returns a value for an error, without what may be secret.
func show(n *tree.Node, t reflect.Type) string {
	if n.Kind == tree.Null || n.Kind == tree.Map || n.Kind == tree.List {
		return n.Show()
	}
	switch t {
	case reflect.TypeFor[Secret](), reflect.TypeFor[Token]():
		return "(a secret)"
	case reflect.TypeFor[Web](), reflect.TypeFor[Upstream](), reflect.TypeFor[StoreURL]():
		return words.BadURL(cmp.Or(n.Raw, n.Text))
	}
	return n.Show()
}

// section reads a mapping as the fields of a struct.
func (d *decoder) section(n *tree.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	if short, ok := fields.short(); ok && n.Kind != tree.Map && n.Kind != tree.List {
		d.value(n, v.Field(short.index), short, path)
		return
	}
	if n.Kind != tree.Map {
		d.failNode(n, path, "must have fields, not %s; they are %s", strings.Trim(show(n, v.Type()), "()"), namesOf(fields))
		return
	}
	for _, given := range n.Fields {
		f, ok := fields.find(given.Name)
		if !ok {
			d.fail(d.file, given.Line, given.Column, "%s", strings.TrimPrefix(path+": ", ": ")+unknown(given.Name, fields))
			continue
		}
		d.value(given.Value, v.Field(f.index), f, join(path, f.name))
	}
	for _, f := range fields {
		if f.need && n.Get(f.name) == nil {
			d.failNode(n, path, "%s is missing: %s", f.name, f.doc)
		}
	}
}

// unknown is what is wrong with the name of a field.
func unknown(name string, fields fieldList) string {
	var known []string
	for _, f := range fields {
		known = append(known, f.name)
	}
	text := "unknown field " + words.Quote(name)
	if likely := near.Of(name, known); likely != "" {
		return text + "; did you mean " + likely + "?"
	}
	return text + "; the fields are " + strings.Join(known, ", ")
}

// list reads a list, or one value as a list of one.
func (d *decoder) list(n *tree.Node, v reflect.Value, f field, path string) {
	items := n.Items
	switch {
	case n.Kind != tree.List:
		items = []*tree.Node{n}
	case len(items) == 0 && f.need:
		d.failNode(n, path, "an empty list; write one at least")
	case len(items) == 0:
		d.failNode(n, path, "an empty list; leave it out")
	case len(items) > maxItems:
		d.failNode(items[maxItems], path, "more than %d of them", maxItems)
		return
	}
	all := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		at := path
		if n.Kind == tree.List {
			at += "[" + strconv.Itoa(i) + "]"
		}
		d.value(item, all.Index(i), f, at)
	}
	v.Set(all)
}

// table reads a mapping whose names are free.
func (d *decoder) table(n *tree.Node, v reflect.Value, f field, path string) {
	switch {
	case n.Kind != tree.Map:
		d.failNode(n, path, "%s: must be %s", n.Show(), f.shape(v.Type()))
		return
	case len(n.Fields) == 0 && f.need:
		d.failNode(n, path, "empty; write one at least")
	case len(n.Fields) == 0:
		d.failNode(n, path, "empty; leave it out")
	case len(n.Fields) > maxItems:
		d.failNode(n, path, "more than %d of them", maxItems)
		return
	}
	all := reflect.MakeMap(v.Type())
	for _, given := range n.Fields {
		one := reflect.New(v.Type().Elem()).Elem()
		d.value(given.Value, one, f, join(path, given.Name))
		all.SetMapIndex(reflect.ValueOf(given.Name), one)
	}
	v.Set(all)
}

// join is the path of a field.
func join(path, name string) string {
	name = words.Quote(name)
	if path == "" {
		return name
	}
	return path + "." + name
}
