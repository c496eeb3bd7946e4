package throttleaws_test

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/throttleaws"
)

// These are shaped like the types of the SDK's DynamoDB client.
type (
	attributeValue         interface{ isAttributeValue() }
	attributeValueMemberS  struct{ Value string }
	attributeValueMemberN  struct{ Value string }
	attributeValueMemberB  struct{ Value []byte }
	attributeValueMemberNS struct{ Value []string }
	attributeValueMemberBS struct{ Value [][]byte }
	attributeValueMemberL  struct{ Value []attributeValue }
	attributeValueMemberM  struct{ Value map[string]attributeValue }
	attributeValueBool     struct{ Value bool }
)

func (*attributeValueMemberS) isAttributeValue()  {}
func (*attributeValueMemberN) isAttributeValue()  {}
func (*attributeValueMemberB) isAttributeValue()  {}
func (*attributeValueMemberNS) isAttributeValue() {}
func (*attributeValueMemberBS) isAttributeValue() {}
func (*attributeValueMemberL) isAttributeValue()  {}
func (*attributeValueMemberM) isAttributeValue()  {}
func (*attributeValueBool) isAttributeValue()     {}

type attributes = map[string]attributeValue

func TestSizeOf(t *testing.T) {
	num := func(n string) attributeValue { return &attributeValueMemberN{n} }
	deep := attributeValue(&attributeValueMemberL{})
	for range 100 {
		deep = &attributeValueMemberL{[]attributeValue{deep}}
	}
	loop := attributes{}
	loop["a"], loop["b"] = &attributeValueMemberM{loop}, &attributeValueMemberM{loop}
	for name, c := range map[string]struct {
		item any
		want int
	}{
		"nothing":             {nil, 0},
		"no item":             {7, 0},
		"empty":               {attributes{}, 0},
		"string":              {attributes{"é": &attributeValueMemberS{"ž"}}, 2 + 2},
		"number":              {attributes{"n": num("123")}, 1 + 3},
		"zero":                {attributes{"n": num("-000.00")}, 1 + 1},
		"zeros at both ends":  {attributes{"n": num("00120.0")}, 1 + 3},
		"negative":            {attributes{"n": num("-5e3")}, 1 + 3},
		"pairs at the point":  {attributes{"n": num("12.34"), "m": num("1.234")}, 1 + 3 + 1 + 4},
		"not a number":        {attributes{"n": num("e-.e")}, 1 + 1},
		"binary":              {attributes{"b": &attributeValueMemberB{make([]byte, 9)}}, 1 + 9},
		"sets":                {attributes{"n": &attributeValueMemberNS{[]string{"1", "2"}}, "b": &attributeValueMemberBS{[][]byte{{1}, {}, {2}}}}, 1 + 4 + 1 + 2},
		"list":                {attributes{"l": &attributeValueMemberL{[]attributeValue{num("1"), &attributeValueBool{true}, nil}}}, 1 + 3 + 3 + 2 + 1},
		"map":                 {attributes{"m": &attributeValueMemberM{attributes{"ab": num("1")}}}, 1 + 3 + 1 + 2 + 2},
		"nil":                 {attributes{"m": nil, "s": (*attributeValueMemberS)(nil)}, 2},
		"as large as can be":  {attributes{"m": &attributeValueMemberS{strings.Repeat("x", 1<<20)}}, 400 << 10},
		"deeper than can be":  {attributes{"l": deep}, 1 + 32*4},
		"a map within itself": {loop, 400 << 10},
	} {
		if got := throttleaws.SizeOf(c.item); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// source makes an item out of the bytes of a fuzzer.
type source []byte

func (s *source) number(below int) int {
	if len(*s) == 0 {
		return 0
	}
	n := int((*s)[0]) % below
	*s = (*s)[1:]
	return n
}

func (s *source) text() string {
	n := min(s.number(256), len(*s))
	text := string((*s)[:n])
	*s = (*s)[n:]
	return text
}

func (s *source) value(depth int) attributeValue {
	kind := s.number(9)
	if depth == 0 && kind > 5 {
		kind = 0
	}
	switch kind {
	case 1:
		return &attributeValueMemberN{s.text()}
	case 2:
		return &attributeValueMemberB{[]byte(s.text())}
	case 3:
		return &attributeValueMemberNS{strings.Split(s.text(), "0")}
	case 4:
		return &attributeValueBool{true}
	case 5:
		return nil
	case 6:
		return &attributeValueMemberM{s.item(depth - 1)}
	case 7, 8:
		l := new(attributeValueMemberL)
		for range s.number(5) {
			l.Value = append(l.Value, s.value(depth-1))
		}
		return l
	}
	return &attributeValueMemberS{strings.Repeat(s.text(), 1+8*s.number(256))}
}

func (s *source) item(depth int) attributes {
	item := attributes{}
	for range s.number(6) {
		item[s.text()] = s.value(depth)
	}
	return item
}

// FuzzSizeOf: one more attribute makes no item smaller, the size is the same
// each time, and its parts add up to it.
func FuzzSizeOf(f *testing.F) {
	f.Add([]byte{3, 1, 'a', 1, 4, '1', 'e', '9', '9', 2, 'b', 'c', 6, 2, 1, 'd', 0, 9, 255, 255, 255})
	f.Add(binary.BigEndian.AppendUint64(nil, 0x0501_6107_0407_0406))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := source(data)
		item := s.item(40)
		name := s.text()
		more := maps.Clone(item)
		delete(item, name)
		if _, there := more[name]; !there {
			more[name] = s.value(3)
		}
		before, after := throttleaws.SizeOf(item), throttleaws.SizeOf(more)
		if after < before || before < 0 || after > 400<<10 {
			t.Errorf("%d bytes, and with %q %d: want no less, from 0 to 400 KB", before, name, after)
		}
		sum := 0
		for _, name := range slices.Sorted(maps.Keys(more)) {
			sum += throttleaws.SizeOf(attributes{name: more[name]})
		}
		if again := throttleaws.SizeOf(more); again != after || min(sum, 400<<10) != after {
			t.Errorf("%d bytes, then %d, and %d in parts: want the same", after, again, sum)
		}
	})
}
