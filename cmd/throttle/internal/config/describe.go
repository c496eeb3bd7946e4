package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// A field is a field of the file: its description stands in the tags of a struct,
// and is what the decoder, the JSON schema and the table in the documents are made
// of.
//
//	name     its name in the file
//	doc      what it is, for people
//	default  what counts if it is absent, for people; "none" if nothing does
//	need     "true" if it must be there
//	short    "true" if its value may stand in place of all fields
//	oneof    the words that it may be, separated by blanks
//	least, most
//	         bounds of a number or a duration
type field struct {
	index       int
	name, doc   string
	otherwise   string
	need        bool
	isShort     bool
	oneof       []string
	least, most string
	typ         reflect.Type
}

type fieldList []field

// fieldsOf are the fields of a struct that stand in a file.
func fieldsOf(t reflect.Type) (all fieldList) {
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name := tag.Get("name")
		if name == "" {
			continue
		}
		all = append(all, field{
			index: i, name: name, doc: tag.Get("doc"), otherwise: tag.Get("default"), need: tag.Get("need") == "true", isShort: tag.Get("short") == "true",
			oneof: strings.Fields(tag.Get("oneof")), least: tag.Get("least"), most: tag.Get("most"), typ: t.Field(i).Type,
		})
	}
	return all
}

func (l fieldList) find(name string) (field, bool) {
	for _, f := range l {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// short is the field whose value may stand in place of all.
func (l fieldList) short() (field, bool) {
	for _, f := range l {
		if f.isShort {
			return f, true
		}
	}
	return field{}, false
}

func namesOf(l fieldList) string {
	var all []string
	for _, f := range l {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// shape is what a value of the field must be, of type t or of its items.
func (f field) shape(t reflect.Type) string {
	if k, ok := kinds[t]; ok {
		return f.scalarShape(k)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return f.shape(t.Elem())
	case reflect.Slice:
		return f.shape(t.Elem()) + ", or a list"
	case reflect.Map:
		return "names, each with " + f.shape(t.Elem())
	}
	fields := fieldsOf(t)
	if short, ok := fields.short(); ok {
		return short.shape(short.typ) + ", or its fields: " + namesOf(fields)
	}
	return "its fields: " + namesOf(fields)
}

func (f field) scalarShape(k kind) string {
	switch {
	case len(f.oneof) > 0:
		return oneOf(f.oneof)
	case f.least != "" && f.least == f.most:
		return f.least
	case f.least != "" && f.most != "":
		return fmt.Sprintf("%s from %s to %s", k.what, f.least, f.most)
	case f.least != "":
		return fmt.Sprintf("%s of at least %s", k.what, f.least)
	}
	return k.what
}

// oneOf is a choice in words: a, b or c.
func oneOf(all []string) string {
	last := len(all) - 1
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// withinNumber is what is wrong with a number for a field, or "".
func (f field) withinNumber(n int64, k kind) string {
	least, most := f.bound(f.least), f.bound(f.most)
	if least != nil && n < *least || most != nil && n > *most {
		return "must be " + f.scalarShape(k)
	}
	return ""
}

// bound is a bound as a number: of nanoseconds, for durations. nil is none.
func (f field) bound(text string) *int64 {
	if text == "" {
		return nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return &n
	}
	if d, err := time.ParseDuration(text); err == nil {
		n := int64(d)
		return &n
	}
	n, ok := sizeOf(text)
	if !ok {
		panic("config: the tag of " + f.name + ": " + words.Quote(text) + " is no bound")
	}
	return &n
}
