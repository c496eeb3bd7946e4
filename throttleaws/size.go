package throttleaws

import (
	"reflect"
	"strconv"
	"strings"
)

const (
	mostSize   = 400 << 10 // bytes of an item: DynamoDB refuses a larger one
	mostDigits = 38        // of a number
	deepest    = 4 * 32    // steps down into a value, four for each level: DynamoDB has 32
)

// sizeOf is the size in bytes of an item of DynamoDB, or of a part of one, as
// its rules for capacity count it: of the names of attributes their UTF-8, of a
// number a byte, one for each two significant digits and one for a minus, of a
// list or map three bytes and one for each element. A larger item than DynamoDB takes, and one
// nested deeper, counts only up to there, so the work is bounded.
func sizeOf(item reflect.Value) int {
	var s sizer
	s.attributes(item, 0)
	return min(s.size, mostSize)
}

// sizer adds up what it is given, until that is more than an item may have.
type sizer struct{ size int }

// full reports whether more would not count.
func (s *sizer) full(depth int) bool { return s.size >= mostSize || depth > deepest }

// attributes adds those of an item or of a map, a map[string]AttributeValue.
func (s *sizer) attributes(m reflect.Value, depth int) {
	if m.Kind() != reflect.Map || m.Type().Key().Kind() != reflect.String {
		return
	}
	for all := m.MapRange(); all.Next() && !s.full(depth); {
		s.size += len(all.Key().String())
		s.value(all.Value(), false, depth+1)
	}
}

// value adds a value: one of the AttributeValueMember types, which are told
// apart by the type of their field Value, but for number, by their name.
func (s *sizer) value(v reflect.Value, number bool, depth int) {
	if s.full(depth) {
		return
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		s.value(v.Elem(), number, depth+1)
	case reflect.Struct:
		name := v.Type().Name()
		number = strings.HasSuffix(name, "MemberN") || strings.HasSuffix(name, "MemberNS")
		s.value(v.FieldByName("Value"), number, depth+1)
	case reflect.String:
		s.size += textSize(v.String(), number)
	case reflect.Bool:
		s.size++
	case reflect.Slice:
		s.elements(v, number, depth)
	case reflect.Map:
		s.size += 3 + v.Len()
		s.attributes(v, depth)
	}
}

// elements adds those of a list or set, or the bytes of a binary value.
func (s *sizer) elements(v reflect.Value, number bool, depth int) {
	each := 0
	switch v.Type().Elem().Kind() {
	case reflect.Uint8:
		s.size += v.Len()
		return
	case reflect.Interface: // a list, as sets have no types within
		s.size += 3
		each = 1
	}
	for i := 0; i < v.Len() && !s.full(depth); i++ {
		s.size += each
		s.value(v.Index(i), number, depth+1)
	}
}

// textSize is the size of a string or of a number.
func textSize(text string, number bool) int {
	if !number {
		return len(text)
	}
	unsigned := strings.TrimLeft(text, "+-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(unsigned), "e")
	whole, part, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+part, "0")
	first, _ := strconv.Atoi(exponent) // the power of ten that the first digit counts
	first += len(digits) - len(part) - 1
	digits = strings.TrimRight(digits, "0")
	n := min(len(digits), mostDigits)
	if n == 0 {
		return 1
	}
	size := 1 + (n+1)/2
	if n%2 == 0 && first%2 == 0 {
		size++ // pairs begin at the decimal point: 1.2 is two of them
	}
	if strings.HasPrefix(text, "-") {
		size++
	}
	return size
}
