package signal

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite dialects_data.go, the golden files and docs/dialects.md")

// specsOf reads the data files, in order of their names, the general one last.
func specsOf(t *testing.T) (specs []spec) {
	t.Helper()
	files, err := filepath.Glob("dialects/*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("found %d files in dialects/, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s spec
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if filepath.Base(file) != s.Name+".json" {
			t.Errorf("%s is of the dialect %q, want its own name", file, s.Name)
		}
		specs = append(specs, s)
	}
	slices.SortFunc(specs, func(a, b spec) int {
		if (a.Name == "general") != (b.Name == "general") {
			return strings.Compare(fmt.Sprint(a.Name == "general"), fmt.Sprint(b.Name == "general"))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return specs
}

// write writes a value as Go, without what is zero.
func write(b *bytes.Buffer, v reflect.Value, named bool) {
	switch v.Kind() {
	case reflect.Struct:
		if named {
			b.WriteString(v.Type().Name())
		}
		b.WriteString("{")
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				fmt.Fprintf(b, "%s: ", v.Type().Field(i).Name)
				write(b, v.Field(i), true)
				b.WriteString(", ")
			}
		}
		b.WriteString("}")
	case reflect.Slice:
		many := v.Type().Elem().Kind() == reflect.Struct
		fmt.Fprintf(b, "[]%s{", v.Type().Elem().Name())
		for i := range v.Len() {
			if many {
				b.WriteString("\n")
			}
			write(b, v.Index(i), false)
			b.WriteString(",")
		}
		if many {
			b.WriteString("\n")
		}
		b.WriteString("}")
	default:
		fmt.Fprintf(b, "%#v", v.Interface())
	}
}

// TestDataIsUpToDate holds dialects_data.go equal to the files in dialects/. If
// spec has changed so that the file does not compile, empty its list but for
// the name "general", and run this with -update.
func TestDataIsUpToDate(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("// Code generated from dialects/*.json by 'go test -run Data -update'. DO NOT EDIT.\n\npackage signal\n\n")
	b.WriteString("// dialects are all of them, the general one last.\nvar dialects = []*Dialect{\n")
	for _, s := range specsOf(t) {
		s.Title, s.Notes, s.Unconfirmed = "", nil, nil // for the docs
		b.WriteString("{spec: ")
		write(&b, reflect.ValueOf(s), true)
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	got, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.Bytes())
	}
	was, _ := os.ReadFile("dialects_data.go")
	checkFile(t, "dialects_data.go", string(got))
	if *update && string(was) != string(got) {
		t.Fatal("dialects_data.go was rewritten; run this again, as the other files were made by what it was")
	}
}

// checkFile compares a file with what it should be, or rewrites it.
func checkFile(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not up to date; run 'go test ./signal -update' and read the difference\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}
