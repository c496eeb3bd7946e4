package rules

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/internal/near"
)

// A reader is a value that reads its own form in a file.
type reader interface{ read(n node) *Error }

var (
	_ reader = (*Set)(nil)
	_ reader = (*Limit)(nil)
	_ reader = (*Cost)(nil)
	_ reader = (*Max)(nil)
	_ reader = (*Key)(nil)
	_ reader = (*Networks)(nil)
	_ reader = (*Entry)(nil)
	_ reader = (*Shadow)(nil)
	_ reader = (*Kill)(nil)
	_ reader = (*Value)(nil)
	_ reader = (*PairPattern)(nil)
)

// node is a Node and its path.
type node struct {
	path string
	Node
}

func (n node) fail(format string, a ...any) *Error {
	return &Error{Path: n.path, Line: n.Line, Column: n.Column, What: fmt.Sprintf(format, a...)}
}

// text returns the text that n is.
func (n node) text() (string, *Error) {
	switch v := n.Value.(type) {
	case string:
		return v, nil
	case bool, json.Number:
		return "", n.fail("must be text; put %v in quotes", v)
	}
	return "", n.fail("must be text")
}

// decode reads n into what a pointer points at, see [Node.Decode].
func decode(n node, into any) *Error {
	if n.Value == nil {
		return n.fail("null; write a value, or leave it out")
	}
	switch p := into.(type) {
	case *Node:
		*p = n.Node
		return nil
	case reader:
		return p.read(n)
	case *time.Duration:
		return decodeDuration(n, p)
	case *time.Time:
		return decodeTime(n, p)
	case encoding.TextUnmarshaler:
		s, e := n.text()
		if e != nil {
			return e
		}
		if err := p.UnmarshalText([]byte(s)); err != nil {
			return n.fail("%v", err)
		}
		return nil
	}
	v := reflect.ValueOf(into).Elem()
	switch v.Kind() {
	case reflect.Struct:
		return decodeStruct(n, v)
	case reflect.Slice:
		return decodeSlice(n, v)
	case reflect.Map:
		return decodeMap(n, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decode(n, v.Interface())
	}
	return decodeScalar(n, v)
}

func decodeDuration(n node, into *time.Duration) *Error {
	s, _ := n.Value.(string)
	d, err := time.ParseDuration(s)
	if err != nil {
		return n.fail("must be a duration, as in \"1m30s\"")
	}
	*into = d
	return nil
}

func decodeTime(n node, into *time.Time) *Error {
	s, _ := n.Value.(string)
	at, err := time.Parse(time.RFC3339, s)
	if err != nil || !writable(at) {
		return n.fail("must be a time with its zone, as in \"2026-12-01T00:00:00Z\" or \"2026-12-01T01:00:00+01:00\"")
	}
	*into = at.UTC()
	return nil
}

// writable reports whether a time can be read again once it is written in UTC.
func writable(at time.Time) bool {
	year := at.UTC().Year()
	return year >= 1 && year <= 9999
}

func decodeStruct(n node, v reflect.Value) *Error {
	fields, ok := n.Value.([]Field)
	if !ok {
		return n.fail("must be an object, {...}")
	}
	index, names := tags(v.Type())
	for _, f := range fields {
		at := node{join(n.path, f.Name), f.Node}
		i, ok := index[f.Name]
		if !ok {
			return &Error{Path: at.path, Line: f.Line, Column: f.Column, What: "unknown field; " + meant(f.Name, names)}
		}
		if e := decode(at, v.FieldByIndex(i).Addr().Interface()); e != nil {
			return e
		}
	}
	return nil
}

// join is the path of a field. Long names are clipped, as a path is for people.
func join(path, name string) string {
	name = clip(name, maxText)
	if path == "" {
		return name
	}
	return path + "." + name
}

// meant says what would be right in place of a field that is not known.
func meant(name string, known []string) string {
	if likely := near.Of(name, known); likely != "" {
		return "did you mean " + likely + "?"
	}
	return "the fields are " + strings.Join(known, ", ")
}

// tags are the fields of a struct by their names in JSON, those of embedded ones
// too, and these names.
func tags(t reflect.Type) (index map[string][]int, names []string) {
	index = map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || name == "-" || !f.IsExported() {
			continue
		}
		index[name] = f.Index
		names = append(names, name)
	}
	return index, names
}

// decodeSlice reads a list, or one value as a list of one. Only on top may a
// list be empty: further in, whether that were all or nothing is a guess.
func decodeSlice(n node, v reflect.Value) *Error {
	list, ok := n.Value.([]Node)
	if !ok {
		list = []Node{n.Node}
	}
	if len(list) == 0 {
		if strings.ContainsAny(n.path, ".[") {
			return n.fail("an empty list; leave it out")
		}
		return nil
	}
	all := reflect.MakeSlice(v.Type(), len(list), len(list))
	for i, one := range list {
		path := n.path
		if ok {
			path = item(path, i)
		}
		if e := decode(node{path, one}, all.Index(i).Addr().Interface()); e != nil {
			return e
		}
	}
	v.Set(all)
	return nil
}

// decodeMap reads an object with any names.
func decodeMap(n node, v reflect.Value) *Error {
	fields, ok := n.Value.([]Field)
	if !ok || len(fields) == 0 {
		return n.fail("must be an object of names, {\"NAME\": ...}")
	}
	all := reflect.MakeMapWithSize(v.Type(), len(fields))
	for _, f := range fields {
		one := reflect.New(v.Type().Elem())
		if e := decode(node{join(n.path, f.Name), f.Node}, one.Interface()); e != nil {
			return e
		}
		all.SetMapIndex(reflect.ValueOf(f.Name).Convert(v.Type().Key()), one.Elem())
	}
	v.Set(all)
	return nil
}

func decodeScalar(n node, v reflect.Value) *Error {
	switch v.Kind() {
	case reflect.String:
		s, e := n.text()
		if e != nil {
			return e
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := n.Value.(bool)
		if !ok {
			return n.fail("must be true or false")
		}
		v.SetBool(b)
	case reflect.Float64:
		number, _ := n.Value.(json.Number)
		f, err := number.Float64()
		if err != nil {
			return n.fail("must be a number")
		}
		v.SetFloat(f)
	case reflect.Int, reflect.Int32, reflect.Int64:
		i, ok := n.integer()
		if !ok || v.OverflowInt(i) {
			return n.fail("must be a whole number below 2^%d", v.Type().Bits()-1)
		}
		v.SetInt(i)
	default:
		return n.fail("a %s cannot be read from a file", v.Type())
	}
	return nil
}

func (n node) integer() (int64, bool) {
	number, ok := n.Value.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(number.String(), 10, 64)
	return i, err == nil
}

func (s *Set) read(n node) *Error {
	fields, ok := n.Value.([]Field)
	if !ok {
		return decodeStruct(n, reflect.ValueOf(s).Elem()) // which refuses it
	}
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == "rules" })
	if i < 0 {
		return n.withoutRules(fields)
	}
	switch fields[i].Node.Value.(type) {
	case nil:
		return node{"rules", fields[i].Node}.fail("null; to limit no request, write []")
	case string, bool, json.Number:
		return node{"rules", fields[i].Node}.fail("must be a list of objects, [{...}]")
	}
	return decodeStruct(n, reflect.ValueOf(s).Elem())
}

// withoutRules says that there are no rules, or by which name they are.
func (n node) withoutRules(fields []Field) *Error {
	for _, f := range fields {
		if near.Of(f.Name, []string{"rules"}) != "" {
			return &Error{Path: join("", f.Name), Line: f.Line, Column: f.Column, What: "unknown field; did you mean rules?"}
		}
	}
	return n.fail(`no "rules"; to limit no request, write "rules": []`)
}

func (k *Kill) read(n node) *Error {
	if on, ok := n.Value.(bool); ok {
		k.On = on
		return nil
	}
	if _, ok := n.Value.([]Field); !ok {
		return n.fail("must be true or false, or {\"on\": true, \"until\": TIME, \"why\": TEXT, \"by\": TEXT}")
	}
	return decodeStruct(n, reflect.ValueOf(k).Elem())
}

func (s *Shadow) read(n node) *Error {
	if on, ok := n.Value.(bool); ok {
		s.Rule = on
		return nil
	}
	if _, ok := n.Value.([]Field); !ok {
		return n.fail("must be true, or {\"limits\": \"8/s\"}")
	}
	if e := decodeStruct(n, reflect.ValueOf(s).Elem()); e != nil {
		return e
	}
	if !s.tried() {
		return n.fail("neither limits nor in_flight; write {\"limits\": \"8/s\"}")
	}
	return nil
}

// read reads text, a number, true or false.
func (v *Value) read(n node) *Error {
	switch x := n.Value.(type) {
	case string:
		*v = Value(x)
	case bool:
		*v = Value(strconv.FormatBool(x))
	case json.Number:
		*v = Value(x.String())
	default:
		return n.fail("must be text, a number, true or false")
	}
	return nil
}

func (m *Max) read(n node) *Error {
	i, ok := n.integer()
	if !ok || i <= 0 {
		return n.fail("must be a whole number above zero; \"limits\": \"0/s\" allows nothing")
	}
	*m = Max(i)
	return nil
}

func (c *Cost) read(n node) *Error {
	if s, ok := n.Value.(string); ok && s != "" {
		c.Name = s
		return nil
	}
	i, ok := n.integer()
	if !ok || i <= 0 {
		return n.fail("must be a whole number above zero, or a name that the program knows")
	}
	c.N = i
	return nil
}

// read splits each text at '+', so that it is one list of parts however it is
// written.
func (k *Key) read(n node) *Error {
	var list []string
	if e := decodeSlice(n, reflect.ValueOf(&list).Elem()); e != nil {
		return e
	}
	for _, s := range list {
		*k = append(*k, strings.Split(s, "+")...)
	}
	return nil
}

func (w *Networks) read(n node) *Error {
	var list []string
	if e := decodeSlice(n, reflect.ValueOf(&list).Elem()); e != nil {
		return e
	}
	for i, s := range list {
		p, what := parseNetwork(s)
		if what != "" {
			return &Error{Path: fmt.Sprintf("%s[%d]", n.path, i), What: what}
		}
		*w = append(*w, p)
	}
	return nil
}

// sorted are the keys of m in order.
func sorted(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
