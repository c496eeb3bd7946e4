package tree

import (
	"fmt"
	"strings"
	"testing"
)

// text writes a tree with the place of each node.
func text(n *Node) string {
	at := fmt.Sprintf("%d:%d ", n.Line, n.Column)
	switch n.Kind {
	case List:
		var all []string
		for _, i := range n.Items {
			all = append(all, text(i))
		}
		return at + "[" + strings.Join(all, ", ") + "]"
	case Map:
		var all []string
		for _, f := range n.Fields {
			all = append(all, fmt.Sprintf("%d:%d %s= %s", f.Line, f.Column, f.Name, text(f.Value)))
		}
		return at + "{" + strings.Join(all, ", ") + "}"
	}
	return at + [...]string{"null", "bool ", "number ", "text "}[n.Kind] + n.Text
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a: 1", "1:1 {1:1 a= 1:4 number 1}"},
		{"a:\n  b: [x, 'y z']\n", "1:1 {1:1 a= 2:3 {2:3 b= 2:6 [2:7 text x, 2:10 text y z]}}"},
		{"a: True\nb: [FALSE, 'True']\n", "1:1 {1:1 a= 1:4 bool true, 2:1 b= 2:4 [2:5 bool false, 2:12 text True]}"},
		{"é: é\nb: true\nc:\n", "1:1 {1:1 é= 1:4 text é, 2:1 b= 2:4 bool true, 3:1 c= 3:3 null}"},
		{"{\n\t\"a\": [1, \"\\u0041\\/\"]\n}\n", "1:1 {2:2 a= 2:7 [2:8 number 1, 2:11 text A/]}"},
		{"- {a: [http://b:1, '::1'], c: [2001:db8::/32, d:e]}", "1:1 [1:3 {1:4 a= 1:7 [1:8 text http://b:1, 1:20 text ::1], 1:28 c= 1:31 [1:32 text 2001:db8::/32, 1:47 text d:e]}]"},
		{"{a: b}", "1:1 {1:2 a= 1:5 text b}"},
		{"{\"a\": \"\\ud83d\\ude00\" /* c */}", "1:1 {1:2 a= 1:7 text 😀}"},
		{"a: &x {b: 1}\nc: *x\n", "1:1 {1:1 a= 1:4 {1:8 b= 1:11 number 1}, 2:1 c= 1:4 {1:8 b= 1:11 number 1}}"},
		{"a: |\n  x\n  y\n", "1:1 {1:1 a= 1:4 text x\ny\n}"},
		{"%YAML 1.2\n---\na: 1\n", "3:1 {3:1 a= 3:4 number 1}"},
		{"\ufeff# %YAML\r\n\r\n%YAML 1.1 # so\r\n---\r\na: 1\r\n", "5:1 {5:1 a= 5:4 number 1}"},
		{"a: |\n\n %YAML 1.2\n", "1:1 {1:1 a= 1:4 text \n%YAML 1.2\n}"},
		{"- a: 1\n  b: 2\n- 3\n", "1:1 [1:3 {1:3 a= 1:6 number 1, 2:3 b= 2:6 number 2}, 3:3 number 3]"},
	} {
		n, err := Parse("f", []byte(c.in))
		if err != nil {
			t.Errorf("Parse(%q) = %v", c.in, err)
		} else if got := text(n); got != c.want {
			t.Errorf("Parse(%q) =\n%s, want\n%s", c.in, got, c.want)
		}
	}
}

// A bomb of aliases is refused, and one that could not end has no anchor.
func TestBadFiles(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for _, c := range []struct{ in, want string }{
		{"", "f:1:1: empty"},
		{"# nothing\n", "f:1:1: empty"},
		{"%YAML 2.0\n---\na: 1\n", "f:1:1: not YAML: found incompatible YAML document"},
		{"%YAML 1.2\n%YAML 1.2\n---\na: 1\n", "f:2:1: not YAML: found incompatible YAML document"},
		{"a: 1\nb: 2\na: 3\n", "f:3:1: a occurs twice, first in line 1"},
		{"{\"a\": 1 \"b\": 2}\n", "f:1:9: not JSON: "},
		{"{ // why\n \"a\": [{\"b\": 1,}]}", "f:2:16: not JSON: "},
		{"{\"a\": 1, /* why */ \"b\": 2,}", "f:1:27: not JSON: "},
		{"{a: [}", "f:1:6: not YAML: "},
		{"? [a]\n: 1\n", "f:1:3: a key that is not text; write a plain name"},
		{"a: {b: 1, b: 2}\n", "f:1:11: b occurs twice, first in line 1"},
		{"a: 1\n---\nb: 2\n", "f:2:1: a second document; write one a file"},
		{"a: [1\n", "f:2:1: not YAML: did not find expected ',' or ']'"},
		{"a:\n\t- b\n", "f:2:1: not YAML: found character that cannot start any token; indent with spaces, not with a tab"},
		{"a:\n  b: @c\n", "f:2:6: not YAML: found character that cannot start any token; write text that begins with one of * & @ ` % in quotes"},
		{"a:\n  - b: 1\n   c: 2\n", "f:3:4: not YAML: did not find expected '-' indicator; indent the items of one list, and the fields of one object, alike"},
		{"a: {b: *}\n", "f:1:9: not YAML: did not find expected alphabetic or numeric character; write text that begins with one of * & @ ` % in quotes"},
		{"a:\n  - *\n", "f:2:6: not YAML: did not find expected alphabetic or numeric character; write text that begins with one of * & @ ` % in quotes"},
		{"a: */b*\n", "f:1:4: not YAML: unknown anchor '/b*' referenced; write text that begins with one of * & @ ` % in quotes"},
		{"a: 1\n b: 2\n", "f:2:3: not YAML: mapping values are not allowed in this context; indent fields of one object alike, and write text with \": \" in quotes"},
		{"a: {b: ${X}}\n", "f:1:9: not YAML: did not find expected ',' or '}'; inside { } and [ ] write \"${NAME}\" in quotes"},
		{"a: \xff\n", "f:1:4: not UTF-8; save the file as UTF-8"},
		{"a: \x01\n", "f:1:4: control character '\\x01'; write plain text"},
		{"a: !!binary x\n", "f:1:4: !!binary: tags are not read; write a plain value"},
		{"<<: {a: 1}\n", "f:1:1: <<: merge keys are not read; write the fields"},
		{"a: *x\n", "f:1:4: not YAML: unknown anchor 'x' referenced"},
		{"a: &x [*x]\n", "f:1:8: alias *x: inside what it stands for"},
		{bomb, "f:5:45: alias *a3: more than 100000 values with it"},
		{strings.Repeat("[", 20) + strings.Repeat("]", 20), "f:1:18: nested more than 16 deep"},
		{strings.Repeat("a", MaxSize+1), "f:1:1: longer than 1 MiB"},
		{"[" + strings.Repeat("a,", 300_000), "f:1:1: 300000 commas and lines; at most 250000"},
		{strings.Repeat("- a\n", 150_000), "f:99999:3: more than 100000 values"},
	} {
		_, err := Parse("f", []byte(c.in))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("Parse(%.60q) = %v, want %s", c.in, err, c.want)
		}
	}
}

// Rules of which nothing is left but comments are called empty, in YAML and in JSON.
func TestEmptyRules(t *testing.T) {
	for _, in := range []string{"", " \n", "\ufeff", "# nothing\n", "---\n"} {
		const want = "1:1: empty; write rules, as in rules: [{name: all, limits: 10/s}]"
		if _, err := Rules([]byte(in)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Rules(%q) = %v, want %s", in, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a: 1\nb: [x, {c: d}]\n")
	f.Add("a: &x [1]\nb: *x\n")
	f.Fuzz(func(t *testing.T, in string) {
		n, err := Parse("f", []byte(in))
		if err == nil && n == nil {
			t.Errorf("Parse(%q) = nil", in)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r\x00") {
			t.Errorf("Parse(%q) = %q, want one line", in, err)
		}
	})
}

// TestRulesOfServe: a file of 'throttle serve' in place of its file of rules is named so.
func TestRulesOfServe(t *testing.T) {
	for text, want := range map[string]string{
		"version: 1\nrules: {file: r.yaml}\ngateway: {listen: :80}\n": "rules: 3:1: gateway is a section of a file of 'throttle serve'; write the file of rules that its section rules names",
		`{"version": 1, "admin": {}}`:                                 "rules: 1:16: admin is a section of a file of 'throttle serve'; write the file of rules that its section rules names",
	} {
		if _, err := Rules([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}
