package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
)

// variable is the pattern of text with ${NAME} or ${file:PATH} in it.
const variable = `\$\{[^}]+\}`

// object is an object of JSON with its fields in this order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON keeps the order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Schema returns the JSON schema of a file, for editors.
func Schema() ([]byte, error) {
	s := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "a file of throttle serve"},
	}
	s = append(s, section(reflect.TypeFor[File]())...)
	text, err := s.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", " "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// section is the schema of the fields of a struct.
func section(t reflect.Type) object {
	var all object
	var need []string
	for _, f := range fieldsOf(t) {
		s := f.schema(f.typ)
		text := f.doc
		if f.otherwise != "" {
			text += "; default: " + f.otherwise
		}
		all = append(all, member{f.name, append(object{{"description", text}}, s...)})
		if f.need {
			need = append(need, f.name)
		}
	}
	s := object{{"type", "object"}, {"additionalProperties", false}, {"properties", all}}
	if need != nil {
		s = append(s, member{"required", need})
	}
	return s
}

// schema is that of a value of the field, or of its items, of type t.
func (f field) schema(t reflect.Type) object {
	if k, ok := kinds[t]; ok {
		return f.scalarSchema(k)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return f.schema(t.Elem())
	case reflect.Slice:
		one := f.schema(t.Elem())
		return object{{"anyOf", []object{one, {{"type", "array"}, {"minItems", 1}, {"maxItems", maxItems}, {"items", one}}}}}
	case reflect.Map:
		return object{{"type", "object"}, {"minProperties", 1}, {"maxProperties", maxItems}, {"additionalProperties", f.schema(t.Elem())}}
	}
	if short, ok := fieldsOf(t).short(); ok {
		return object{{"anyOf", []object{short.schema(short.typ), section(t)}}}
	}
	return section(t)
}

func (f field) scalarSchema(k kind) object {
	within := object{{"type", "string"}, {"pattern", variable}}
	switch {
	case len(f.oneof) > 0:
		return object{{"anyOf", []object{{{"enum", f.oneof}}, within}}}
	case k.kind == tree.Bool:
		return object{{"anyOf", []object{{{"type", "boolean"}}, within}}}
	case k.kind == tree.Number:
		s := object{{"type", "integer"}}
		if least := f.bound(f.least); least != nil {
			s = append(s, member{"minimum", *least})
		}
		if most := f.bound(f.most); most != nil {
			s = append(s, member{"maximum", *most})
		}
		return object{{"anyOf", []object{s, within}}}
	case k.pattern == "" || k.pattern == ".":
		return object{{"type", "string"}, {"minLength", 1}}
	}
	return object{{"type", "string"}, {"pattern", "(" + k.pattern + ")|" + variable}}
}

// Table is the description as Markdown: a table for each section.
func Table() string {
	var b strings.Builder
	b.WriteString("| field | meaning | if absent |\n|---|---|---|\n")
	rows(&b, "", reflect.TypeFor[File]())
	return b.String()
}

// rows writes a row for each field, and those of its own fields below it.
func rows(b *strings.Builder, path string, t reflect.Type) {
	for _, f := range fieldsOf(t) {
		inner, list := f.typ, ""
		for {
			if _, scalar := kinds[inner]; scalar || inner.Kind() != reflect.Pointer && inner.Kind() != reflect.Slice && inner.Kind() != reflect.Map {
				break
			}
			switch inner.Kind() {
			case reflect.Slice:
				list = "[]"
			case reflect.Map:
				list = ".NAME"
			}
			inner = inner.Elem()
		}
		_, scalar := kinds[inner]
		what := f.doc
		if scalar {
			what = f.cell(inner) + what
		}
		otherwise := f.otherwise
		if f.need {
			otherwise = "required"
		}
		b.WriteString("| `" + path + f.name + "` | " + what + " | " + otherwise + " |\n")
		if !scalar && inner.Kind() == reflect.Struct {
			rows(b, path+f.name+list+".", inner)
		}
	}
}

// cell says within which bounds a field is.
func (f field) cell(t reflect.Type) string {
	var bounds []string
	if f.least != "" && f.least != f.most {
		bounds = append(bounds, "from "+f.least)
	}
	if f.most != "" && f.least != f.most {
		bounds = append(bounds, "to "+f.most)
	}
	switch {
	case len(f.oneof) > 0:
		return "`" + strings.Join(f.oneof, "`, `") + "`: "
	case bounds != nil:
		return strings.Join(bounds, " ") + ": "
	}
	return ""
}
