package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
)

const docs = "../../../../docs/"

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("throttle.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("throttle.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plain is a tree as values of JSON.
func plain(n *tree.Node) any {
	switch n.Kind {
	case tree.Bool:
		return n.Text == "true"
	case tree.Number:
		return json.Number(n.Text)
	case tree.Text:
		return n.Text
	case tree.List:
		all := []any{}
		for _, i := range n.Items {
			all = append(all, plain(i))
		}
		return all
	case tree.Map:
		all := map[string]any{}
		for _, f := range n.Fields {
			all[f.Name] = plain(f.Value)
		}
		return all
	}
	return nil
}

// asked is what the decoder and the schema say of a text.
func asked(t *testing.T, s *jsonschema.Schema, text string) (decoded, valid error) {
	t.Helper()
	n, err := tree.Parse("f", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	f := &files{lookup: lookup, places: map[string]place{}}
	f.expand("f", n)
	(&decoder{f, "f"}).value(n, reflect.ValueOf(new(File)).Elem(), field{}, "")
	n, _ = tree.Parse("f", []byte(text))
	return f.err, s.Validate(plain(n))
}

// samples are texts for a value of each kind, and texts that are no such value.
var samples = map[reflect.Type]struct{ good, bad []string }{
	reflect.TypeFor[string]():   {[]string{"x", "'${WORD}'"}, []string{"1", "true", "[]", "{}", "''", "[x, []]"}},
	reflect.TypeFor[bool]():     {[]string{"true", "false"}, []string{"yes", "1", "'true'", "{}"}},
	reflect.TypeFor[int]():      {[]string{"'${PORT}'"}, []string{"-1", "x", "1.5", "'1'", "true", "[[1]]"}},
	reflect.TypeFor[Listen]():   {[]string{"':80'", "'127.0.0.1:${PORT}'", "unix:/a"}, []string{"80", "localhost", "''", "'unix:'"}},
	reflect.TypeFor[Target]():   {[]string{"'h:1'", "'[::1]:65535'", "'${WORD}:80'"}, []string{"h", "':1'", "'h:x'", "1", "''", "'http://h:1'"}},
	reflect.TypeFor[Path]():     {[]string{"x"}, []string{"1", "''", "{}"}},
	reflect.TypeFor[Secret]():   {[]string{"x", "'${PASS}'"}, []string{"1", "''"}},
	reflect.TypeFor[Field]():    {[]string{"header:X-Api-Key"}, []string{"Authorization", "'header:'", "'header:a b'", "1", "''"}},
	reflect.TypeFor[Rate]():     {[]string{"4/s", "100/min burst 10"}, []string{"1", "x", "''"}},
	reflect.TypeFor[Overlay]():  {[]string{"x", "store"}, []string{"1", "''"}},
	reflect.TypeFor[Web]():      {[]string{"http://h", "https://h/p?q"}, []string{"ftp://h", "h", "1", "''"}},
	reflect.TypeFor[Upstream](): {[]string{"http://h", "https://h:1/p", "h2c://h:1", "dns+srv://n"}, []string{"ftp://h", "h:1", "1", "'http://'"}},
	reflect.TypeFor[StoreURL](): {[]string{"'memory:'", "redis://h", "postgres://u@h/d"}, []string{"redis", "1", "''"}},
}

// sample are the texts for one field.
func sample(t *testing.T, f field, typ reflect.Type) (good, bad []string) {
	switch {
	case len(f.oneof) > 0:
		return f.oneof, []string{"no-such-word", "1", "{}"}
	case typ.String() == "time.Duration":
		return []string{"1s"}, []string{"1", "x", "1 s", "-1s", "''", "1d"}
	case typ.String() == "netip.Prefix":
		return []string{"10.0.0.0/8", "192.0.2.1", "'2001:db8::/32'"}, []string{"x", "1", "10.0.0.0/x", "''"}
	case typ == reflect.TypeFor[Size]():
		return []string{"2KiB", "2kB"}, []string{"1", "x", "1 KiB", "1K", "''"}
	case typ.Kind() == reflect.Int:
		bad := samples[typ].bad
		if f.least != "" {
			good = append(good, f.least, f.most)
			bad = append([]string{fmt.Sprint(*f.bound(f.least) - 1), fmt.Sprint(*f.bound(f.most) + 1)}, bad...)
		}
		return good, bad
	}
	s, ok := samples[typ]
	if !ok {
		t.Fatalf("no samples of %v", typ)
	}
	return s.good, s.bad
}

// walk calls do with each scalar field of a struct and a text of the file with the
// hole %s for its value.
func walk(t *testing.T, typ reflect.Type, wrap string, do func(name, text string, f field, scalar reflect.Type)) {
	fields := fieldsOf(typ)
	for _, f := range fields {
		others := ""
		for _, o := range fields {
			if o.need && o.name != f.name {
				others += ", " + o.name + ": " + needed(t, o)
			}
		}
		inner := f.typ
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		text := fmt.Sprintf(wrap, "{"+f.name+": %s"+strings.ReplaceAll(others, "%", "%%")+"}")
		switch _, scalar := kinds[inner]; {
		case scalar:
			do(f.name, text, f, inner)
		case inner.Kind() == reflect.Struct:
			do(f.name, text, f, inner)
			walk(t, inner, text, do)
		case inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct:
			walk(t, inner.Elem(), fmt.Sprintf(text, "{k: %s}"), do)
		case inner.Kind() == reflect.Map:
			do(f.name, fmt.Sprintf(text, "{k: %s}"), f, inner.Elem())
		}
	}
}

// needed is a text for a field that must be there.
func needed(t *testing.T, f field) string {
	if f.name == "version" {
		return "1"
	}
	inner := f.typ
	for inner.Kind() == reflect.Slice {
		inner = inner.Elem()
	}
	if inner.Kind() == reflect.Map {
		return "{k: 'http://h'}"
	}
	if inner == reflect.TypeFor[Route]() {
		return "{to: 'http://h'}"
	}
	if inner == reflect.TypeFor[Socket]() || inner == reflect.TypeFor[AdminSocket]() || inner == reflect.TypeFor[EnvoySocket]() {
		return "':1'"
	}
	good, _ := sample(t, f, inner)
	return good[0]
}

// The decoder and the schema agree on each field of the file: what one takes the
// other takes.
func TestSchemaIsTheDecoder(t *testing.T) {
	s := compiled(t)
	seen := 0
	walk(t, reflect.TypeFor[File](), "%s", func(name, text string, f field, typ reflect.Type) {
		seen++
		good, bad := []string(nil), []string{"1.5", "'x y'", "no", "{no_such_field: 1}"}
		if _, ok := kinds[typ]; ok {
			good, bad = sample(t, f, typ)
		}
		for i, one := range append(good, bad...) {
			filled := fmt.Sprintf(text, one)
			decoded, valid := asked(t, s, filled)
			if (decoded == nil) != (i < len(good)) || (decoded == nil) != (valid == nil) {
				t.Errorf("%s\ndecoder: %v\nschema: %v\nwant both to take it: %t", filled, decoded, valid, i < len(good))
			}
		}
	})
	if seen < 80 {
		t.Errorf("tried %d fields, want all", seen)
	}
}

// The table in the documents is the description.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docs + "serve.md")
	more, errMore := os.ReadFile(docs + "egress.md")
	if err != nil || errMore != nil {
		t.Fatal(err, errMore)
	}
	if !strings.Contains(string(text), Table()) {
		t.Errorf("docs/serve.md has not this table:\n%s", Table())
	}
	schema := compiled(t)
	seen := 0
	for _, block := range strings.Split(string(text)+string(more), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "version: 1\n") {
			continue
		}
		seen++
		n, err := tree.Parse("docs", []byte(block))
		if err != nil {
			t.Errorf("%v in\n%s", err, block)
			continue
		}
		if err := schema.Validate(plain(n)); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
		any := func(name string) (string, bool) { return "0123456789abcdef-" + name, true }
		if _, err := Parse([]Named{{"docs/serve.md", []byte(strings.ReplaceAll(block, "file:/run/secrets/", ""))}}, any); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
	}
	if seen < 3 {
		t.Errorf("docs/serve.md has %d examples, want 3 and more", seen)
	}
}
