package rules_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// at is a Node with a place.
func at(line, column int, value any) rules.Node {
	return rules.Node{Value: value, Line: line, Column: column}
}

// called is a Field whose value stands on the same line.
func called(name string, line, column int, value any) rules.Field {
	return rules.Field{Name: name, Line: line, Column: column, Node: at(line, column+len(name)+2, value)}
}

// yaml is what a reader of this text hands over:
//
//	rules:
//	  - name: api
//	    key: address
//	    limits: LIMITS
func yaml(limits any) rules.Node {
	return at(1, 1, []rules.Field{{Name: "rules", Line: 1, Column: 1, Node: at(2, 3, []rules.Node{
		at(2, 5, []rules.Field{called("name", 2, 5, "api"), called("key", 3, 5, "address"), called("limits", 4, 5, limits)}),
	})}})
}

// A tree of another format has the same rules, and errors at its places.
func TestParseNode(t *testing.T) {
	c, err := rules.ParseNode(yaml("10/s"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := rules.Parse([]byte(`{"rules": {"name": "api", "key": "address", "limits": "10/s"}}`))
	if err != nil || c.Version() != same.Version() {
		t.Errorf("ParseNode is version %s, Parse %s, %v; want them equal", c.Version(), same.Version(), err)
	}
	extra := yaml("10/s")
	extra.Value = append(extra.Value.([]rules.Field), called("rule", 5, 1, "x"))
	twice := yaml("10/s")
	twice.Value = append(twice.Value.([]rules.Field), called("rules", 7, 1, []rules.Node{}))
	many := make([]rules.Node, 100_000)
	for i := range many {
		many[i] = at(i, 1, "1/s")
	}
	for _, x := range []struct {
		root rules.Node
		want string
	}{
		{yaml("10"), `rules: 4:13: rules[0].limits: `},
		{yaml(json.Number("10")), `rules: 4:13: rules[0].limits: must be text`},
		{yaml(10), `rules: 4:13: a int is no value of a file`},
		{yaml(nil), `rules: 4:13: rules[0].limits: null; write a value, or leave it out`},
		{yaml([]rules.Node{at(4, 14, "1/s"), at(4, 19, "x")}), `rules: 4:19: rules[0].limits[1]: `},
		{extra, `rules: 5:1: rule: unknown field; did you mean rules?`},
		{twice, `rules: 7:1: "rules" occurs twice`},
		{yaml(many), `rules: 99994:1: more than 100000 values`},
		{at(3, 1, []rules.Field{called("version", 3, 1, json.Number("1"))}), `rules: 3:1: no "rules"`},
		{rules.Node{}, `rules: null; write a value, or leave it out`},
	} {
		_, err := rules.ParseNode(x.root)
		var e *rules.Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("ParseNode: %v, want %s", err, x.want)
		}
	}
}

// A program reads the rest of its file by the same decoder.
func TestDecode(t *testing.T) {
	type route struct {
		Match   string            `json:"match"`
		To      []string          `json:"to"`
		Timeout time.Duration     `json:"timeout"`
		Share   float64           `json:"share"`
		Labels  map[string]string `json:"labels"`
		Most    int32             `json:"most"`
		Until   time.Time         `json:"until"`
	}
	type file struct {
		Routes []route              `json:"routes"`
		Named  map[string]route     `json:"named"`
		Rules  rules.Node           `json:"rules"`
		Trust  rules.Networks       `json:"trust"`
		Inside struct{ N chan int } `json:"inside"`
	}
	read := func(text string) (f file, root rules.Node, err error) {
		if root, err = rules.ReadNode([]byte(text)); err == nil {
			err = root.Decode(&f)
		}
		return f, root, err
	}
	f, root, err := read("{\"routes\": {\"match\": \"/*\", \"to\": [\"a\", \"b\"], \"timeout\": \"1m30s\", \"share\": 0.5,\n" +
		`"labels": {"a.b": "c"}, "most": 7, "until": "2026-12-01T01:00:00+01:00"}, "named": {"x.y": {"match": "/z"}}, "rules": {"rules": []}}`)
	if err != nil || len(f.Routes) != 1 {
		t.Fatalf("Decode: %+v, %v", f, err)
	}
	r := f.Routes[0]
	if until := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC); r.Match != "/*" || len(r.To) != 2 || r.Timeout != 90*time.Second ||
		r.Share != 0.5 || r.Labels["a.b"] != "c" || r.Most != 7 || !r.Until.Equal(until) || f.Named["x.y"].Match != "/z" {
		t.Errorf("Decode: %+v", f)
	}
	if _, err := rules.ParseNode(f.Rules); err != nil {
		t.Errorf("ParseNode of a Node that was decoded: %v", err)
	}
	for path, want := range map[string]string{
		"routes[0].to[1]":      "1:40",
		"routes[0].labels.a.b": "2:19",
		"routes[0].labels.a.c": "2:11",
		"named.x.y.match":      "2:102",
		"nowhere[3].x":         "1:1",
		"":                     "1:1",
	} {
		if err := root.Fail(path, "x"); !strings.HasPrefix(err.Error(), "rules: "+want+": ") {
			t.Errorf("Fail(%q) = %v, want it at %s", path, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"routes": {"timeout": "soon"}}`:              `1:24: routes.timeout: must be a duration`,
		`{"routes": {"timeout": 3}}`:                   `1:24: routes.timeout: must be a duration`,
		`{"routes": [{}, {"share": "x"}]}`:             `1:27: routes[1].share: must be a number`,
		`{"routes": {"most": 2147483648}}`:             `1:21: routes.most: must be a whole number below 2^31`,
		`{"routes": {"until": "2026-12-01"}}`:          `1:22: routes.until: must be a time with its zone`,
		`{"routes": {"match": 8080}}`:                  `1:22: routes.match: must be text; put 8080 in quotes`,
		`{"named": {"a": {"b": 1}}}`:                   `1:18: named.a.b: unknown field; the fields are match, to, timeout`,
		`{"named": {}}`:                                `1:11: named: must be an object of names`,
		`{"rules": [[[[[[[[[1]]]]]]]]]}`:               `1:19: nested too deep`,
		`{"trust": ["10.0.0.0/8", "10.0.0.0/33"]}`:     `1:26: trust[1]: "10.0.0.0/33" is neither`,
		`{"inside": {"": 1}}`:                          `1:17: inside.: a chan int cannot be read`,
		"{\n\"routes\": {\"labels\": {\"a\": false}}}": `2:28: routes.labels.a: must be text; put false in quotes`,
	} {
		if _, _, err := read(text); err == nil || !strings.HasPrefix(err.Error(), "rules: "+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
