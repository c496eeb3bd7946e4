package rules

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// A reader is a value that reads its own JSON form.
type reader interface{ read(n node) *Error }

var (
	_ reader = (*Limit)(nil)
	_ reader = (*Cost)(nil)
	_ reader = (*Max)(nil)
	_ reader = (*Key)(nil)
	_ reader = (*Networks)(nil)
)

func (n node) fail(format string, a ...any) *Error {
	return &Error{Path: n.path, What: fmt.Sprintf(format, a...)}
}

// decode reads n into what a pointer points at, by the names in its tags and
// nothing else: what they do not name is refused, as is null.
func decode(n node, into any) *Error {
	if n.value == nil {
		return n.fail("null; leave it out")
	}
	switch p := into.(type) {
	case reader:
		return p.read(n)
	case encoding.TextUnmarshaler:
		s, ok := n.value.(string)
		if !ok {
			return n.fail("must be text")
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
	}
	return decodeScalar(n, v)
}

func decodeStruct(n node, v reflect.Value) *Error {
	fields, ok := n.value.([]field)
	if !ok {
		return n.fail("must be an object, {...}")
	}
	index, names := tags(v.Type())
	for _, f := range fields {
		i, ok := index[f.name]
		if !ok {
			return &Error{Path: f.node.path, What: "unknown field; the fields are " + names, name: f.offset}
		}
		if e := decode(f.node, v.Field(i).Addr().Interface()); e != nil {
			return e
		}
	}
	return nil
}

// tags are the fields of a struct by their names in JSON, and these in a line.
func tags(t reflect.Type) (index map[string]int, names string) {
	index = map[string]int{}
	var list []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		index[name] = i
		list = append(list, name)
	}
	return index, strings.Join(list, ", ")
}

// decodeSlice reads a list, or one value as a list of one. Only on top may a
// list be empty: further in, whether that were all or nothing is a guess.
func decodeSlice(n node, v reflect.Value) *Error {
	list, ok := n.value.([]node)
	if !ok {
		list = []node{n}
	}
	if len(list) == 0 {
		if strings.ContainsAny(n.path, ".[") {
			return n.fail("an empty list; leave it out")
		}
		return nil
	}
	all := reflect.MakeSlice(v.Type(), len(list), len(list))
	for i, item := range list {
		if e := decode(item, all.Index(i).Addr().Interface()); e != nil {
			return e
		}
	}
	v.Set(all)
	return nil
}

// decodeMap reads an object of texts.
func decodeMap(n node, v reflect.Value) *Error {
	fields, ok := n.value.([]field)
	if !ok || len(fields) == 0 {
		return n.fail("must be an object of names and patterns, {\"NAME\": \"PATTERN\"}")
	}
	all := map[string]string{}
	for _, f := range fields {
		s, ok := f.node.value.(string)
		if !ok {
			return f.node.fail("must be text")
		}
		all[f.name] = s
	}
	v.Set(reflect.ValueOf(all))
	return nil
}

func decodeScalar(n node, v reflect.Value) *Error {
	switch v.Kind() {
	case reflect.String:
		s, ok := n.value.(string)
		if !ok {
			return n.fail("must be text")
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := n.value.(bool)
		if !ok {
			return n.fail("must be true or false")
		}
		v.SetBool(b)
	default:
		i, ok := n.integer()
		if !ok {
			return n.fail("must be a whole number below 2^63")
		}
		v.SetInt(i)
	}
	return nil
}

func (n node) integer() (int64, bool) {
	number, ok := n.value.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(number.String(), 10, 64)
	return i, err == nil
}

func (l *Limit) read(n node) *Error {
	var err error
	if s, ok := n.value.(string); ok {
		*l, err = parseLimit(s)
	} else {
		var o limitObject
		if _, ok := n.value.([]field); !ok {
			return n.fail("must be text, as in \"10/s burst 20\", or {\"count\": 10, \"period\": \"1s\"}")
		}
		if e := decodeStruct(n, reflect.ValueOf(&o).Elem()); e != nil {
			return e
		}
		*l, err = o.limit()
	}
	if err != nil {
		return n.fail("%v", err)
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
	if s, ok := n.value.(string); ok && s != "" {
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

// parseNetwork reads an address or a network, or says what is wrong.
func parseNetwork(s string) (p netip.Prefix, what string) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), ""
	}
	if i := strings.IndexByte(s, '%'); i >= 0 && strings.Contains(s, ":") {
		return netip.Prefix{}, fmt.Sprintf("%.60q has the zone of an interface; write %.60s, which is that address on any interface", s, s[:i])
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Sprintf("%.60q is neither an address nor a network; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32", s)
	}
	return p, networkFlaw(p)
}

// networkFlaw is what is wrong with a network, or "".
func networkFlaw(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return "not a network; write 10.0.0.0/8"
	case p != p.Masked():
		return fmt.Sprintf("%v has bits set beyond its length; write %v", p, p.Masked())
	case p.Addr().Is4In6():
		return fmt.Sprintf("%v is an IPv4 network in the form of IPv6; write it as IPv4", p)
	}
	return ""
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
