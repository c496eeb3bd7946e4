package importenvoy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/importenvoy"
)

// one is a file with one descriptor, whose fields are given, from column 4 of line 3.
func file(fields string) string { return "domain: d\ndescriptors:\n- {" + fields + "}\n" }

// TestRefused: what the reference refuses, and what rules cannot decide in the same
// way, is one line with its place.
func TestRefused(t *testing.T) {
	for _, x := range []struct{ in, want string }{
		{"", "f:1:1: empty"},
		{"[a]", "f:1:1: must be a mapping with domain and descriptors"},
		{"descriptors: []\n", "f:1:1: no domain; write domain: NAME"},
		{"domain:\n", "f:1:8: no domain; write domain: NAME"},
		{"domain: [x]\n", "f:1:10: domain: x in the list is not a mapping"},
		{"domain: {key: x}\n", "f:1:9: domain: must be text, not (a mapping)"},
		{"domain: 'a*'\n", "f:1:9: domain a*: the reference takes '*' as it is"},
		{"domain: " + strings.Repeat("d", 257), "f:1:9: the domain has 257 bytes; rules take at most 256"},
		{"domain: d\ndescriptors: x\n", "f:2:14: descriptors: must be a list; write - key: NAME"},
		{"domain: d\ndescriptors: {key: x}\n", "f:2:14: descriptors: must be a list"},
		{"domain: d\ndescriptors: [x]\n", "f:2:15: descriptors: x in the list is not a mapping; write - key: NAME"},
		{"domain: d\ndescriptors: [null]\n", "f:2:15: descriptors: empty in the list is not a mapping"},
		{"domain: d\ndomain: e\n", "f:2:1: domain occurs twice, first in line 1"},
		{file("keys: x"), "f:3:4: key keys is not known; did you mean key?"},
		{file("bucket: x"), "f:3:4: key bucket is not known; known are domain, descriptors, key, value, rate_limit, "},
		{file("key: x, Value: y"), "f:3:12: key Value is not known; write value"},
		{"apiVersion: v1\nkind: ConfigMap\ndata: {}\n", "f:1:1: key apiVersion is not known; a manifest of Kubernetes is not read; write what is in the data of the ConfigMap to files"},
		{file("key: x, rate_limit: {units: day}"), "f:3:25: key units is not known"},
		{file("key: x, metadata: {any: 1.5}, oops: 1"), "f:3:34: key oops is not known"},
		{file("key: x, metadata: y"), "f:3:22: metadata: must be a mapping, not y"},
		{file("value: x"), "f:3:3: a descriptor without a key; write key: NAME"},
		{file("key: '', value: x"), "f:3:3: a descriptor without a key"},
		{file("key: [{key: x}]"), "f:3:9: key: must be text, not (a list)"},
		{file("key: x, value: 1.5"), "f:3:19: value: 1.5 is not a whole number that fits; write one, or put text in quotes"},
		{file("key: x, value: 99999999999999999999"), "f:3:19: value: 99999999999999999999 is not a whole number that fits"},
		{file("key: x, unit: 1e3"), "f:3:18: unit: 1e3 is not a whole number that fits"},
		{file("key: x, value: " + strings.Repeat("v", 257)), "is longer than the 256 bytes that rules take of a key or a value"},
		{file("key: x, shadow_mode: 1"), "f:3:25: shadow_mode: 1; write true or false without quotes"},
		{file("key: x, shadow_mode: 'true'"), "f:3:25: shadow_mode: true; write true or false without quotes"},
		{file("key: x, shadow_mode: \"no\""), "f:3:25: shadow_mode: no; write true or false without quotes"},
		{"{\"domain\": \"d\", \"descriptors\": [{\"key\": \"x\", \"shadow_mode\": \"on\"}]}", "f:1:61: shadow_mode: on; write true or false"},
		{"domain: d\ndescriptors:\n- key: x\n  quota_mode: |-\n    yes\n", "f:4:15: quota_mode: yes; write true or false"},
		{file("key: x, share_threshold: true"), "f:3:3: share_threshold without a '*' in the value \"\""},
		{file("key: x, rate_limit: y"), "f:3:24: rate_limit: must be a mapping; write unit and requests_per_unit"},
		{file("key: x, rate_limit: {requests_per_unit: 1}"), "f:3:24: rate_limit: no unit; write second, minute, hour, day, week, month or year"},
		{file("key: x, rate_limit: {unit: fortnight}"), "f:3:31: unit: fortnight is not known; write second"},
		{file("key: x, rate_limit: {unit: unknown}"), "f:3:31: unit: unknown is not known"},
		{file("key: x, rate_limit: {unlimited: true, unit: day}"), "f:3:48: unit with unlimited; leave one of them out"},
		{file("key: x, rate_limit: {unit: day, requests_per_unit: -1}"), "f:3:55: requests_per_unit: -1; write a whole number from 0 to 4294967295"},
		{file("key: x, rate_limit: {unit: day, requests_per_unit: 4294967296}"), "f:3:55: requests_per_unit: 4294967296; write"},
		{file("key: x, rate_limit: {unit: day, requests_per_unit: '5'}"), "f:3:55: requests_per_unit: 5; write"},
		{file("key: x, rate_limit: {unlimited: true, replaces: y}"), "f:3:52: replaces: must be a list; write - name: NAME"},
		{file("key: x, rate_limit: {unlimited: true, replaces: [{name: ''}]}"), "f:3:53: replaces: no name"},
		{file("key: x, rate_limit: {unlimited: true, name: n, replaces: [{name: n}]}"), "f:3:62: replaces: n is the name of the same limit"},
		{file("key: x}\n- {key: x"), "f:4:3: x is there twice, first at f:3:3"},
		{file("key: a_b}\n- {key: a, value: b"), "f:4:3: a_b is there twice, first at f:3:3; the reference looks both up as one text"},
		{file("key: x, quota_mode: true, " + perHour), "f:3:12: quota_mode: rules decide for each descriptor by itself"},
		{
			file("key: x, " + perHour + "}\n- {key: y, rate_limit: {unit: day, requests_per_unit: 2, name: n}}\n- {key: z, rate_limit: {unlimited: true, replaces: [{name: n}]}"),
			"f:5:53: replaces: rules decide for each descriptor by itself, and this drops the limit n of f:4:3 in a request that has both",
		},
		{file("key: x, value: a*, share_threshold: true, descriptors: [{key: x, " + perHour + "}]"), "f:3:60: share_threshold in a descriptor with two entries x"},
		{file("key: 'x y', descriptors: [{key: z, value: a*, share_threshold: true, " + perHour + "}]"), "f:3:30: its rule would not be taken: key[0]: entry: and the key of an entry go together"},
	} {
		done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(x.in)}}, importenvoy.Options{})
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") || done.Set.Rules != nil {
			t.Errorf("Translate(%q) = %v, %v; want no rules, ...%s...", x.in, done.Set.Rules, err, x.want)
		}
	}
}

// TestNotes: what decides nothing is left out, and said.
func TestNotes(t *testing.T) {
	for _, x := range []struct{ in, want string }{
		{file("key: x, " + perHour), ""},
		{file("key: x, detailed_metric: true, value_to_metric: on, metadata: {a: [1.5]}"), "f:3:12: detailed_metric is about metrics alone; left out\nf:3:35: value_to_metric is about metrics alone; left out\nf:3:56: metadata goes into answers and decides nothing; left out"},
		{file("key: x, detailed_metric: false, value_to_metric: off, quota_mode: no, metadata: null"), "f:3:74: metadata goes into answers and decides nothing; left out"},
		{file("key: x, detailed_metric: true}\n- {key: y, detailed_metric: true}\n- {key: z, detailed_metric: true"), "f:3:12: detailed_metric is about metrics alone; left out (2 more)"},
		{"shadow_mode: true\n" + file("key: x, unit: day, rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}"), "f:1:1: shadow_mode is ignored in the file, as the reference does; it belongs beside key\n" +
			"f:4:12: unit is ignored in a descriptor, as the reference does; it belongs into rate_limit\n" +
			"f:4:69: shadow_mode is ignored in rate_limit, as the reference does; it belongs beside key"},
		{file("key: 'x*', " + perHour + "}\n- {key: 'y*', value: z"), "f:3:3: a '*' in a key stands for itself; the reference finds descriptors with other keys by it too (1 more)"},
		{file("key: x/*, value: x/*, " + perHour), ""},
		{file("key: x, rate_limit: {unit: day}"), "f:3:24: no requests_per_unit, which is 0: all are refused"},
		{file("key: x, quota_mode: true"), "f:3:12: quota_mode without a limit that refuses; left out"},
		{file("key: x, quota_mode: true, shadow_mode: true, " + perHour), "f:3:12: quota_mode without a limit that refuses; left out"},
		{file("key: x, rate_limit: {unlimited: true, name: n}}\n- {key: y, rate_limit: {unlimited: true, replaces: [{name: n}]}"), "f:4:53: replaces: no limit of the domain that refuses has the name n; left out\nf:3:42: name: answers have the name of the rule; left out"},
		{file("key: x, value: '*', " + perHour + "}\n- {key: x, " + perHour), "f:4:3: no entry x gets to this descriptor, as those before it take all; left out"},
		{file("key: x, value: a*, " + perHour + "}\n- {key: x, value: a*b, " + perHour), "f:4:3: no entry x gets to this descriptor, as those before it take all; left out"},
		{file("key: user, value: '*', " + perHour + "}\n- {key: user_id, " + perHour), "f:3:3: user_* also gets the entries user_id=*, as the reference looks up KEY_VALUE as one text\nf:4:3: no entry user_id gets to this descriptor, as those before it take all; left out\nf:4:3: user_id also gets the entries user=id, as the reference looks up KEY_VALUE as one text"},
	} {
		done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(x.in)}}, importenvoy.Options{})
		if got := strings.Join(done.Notes, "\n"); err != nil || got != x.want {
			t.Errorf("Translate(%q): %v, notes\n%s\nwant\n%s", x.in, err, got, x.want)
		}
	}
}

// TestManyNotes: their number is bounded.
func TestManyNotes(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "- {key: k%d, unit: day, detailed_metric: true}\n", i)
	}
	done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(b.String())}}, importenvoy.Options{})
	if n := len(done.Notes); err != nil || n != 22 || done.Notes[20] != "and 80 more like these" || !strings.HasSuffix(done.Notes[21], "(99 more)") {
		t.Errorf("%v, %d notes: %q; want 22", err, n, done.Notes)
	}
}

// TestSeveralFiles: each has a domain of its own.
func TestSeveralFiles(t *testing.T) {
	a := importenvoy.Source{Name: "a", Data: []byte(file("key: x, " + perHour))}
	b := importenvoy.Source{Name: "b", Data: []byte("domain: ''")}
	done, err := importenvoy.Translate([]importenvoy.Source{a, b}, importenvoy.Options{})
	if want := "b:1:9: no domain; write domain: NAME, as Envoy sends it"; err == nil || err.Error() != want || done.Set.Rules != nil {
		t.Errorf("a bad second file: %v, %v; want no rules, %s", done.Set.Rules, err, want)
	}
	b.Data = []byte(strings.Replace(file("key: x, "+perHour), ": d", ": e", 1))
	done, err = importenvoy.Translate([]importenvoy.Source{a, b}, importenvoy.Options{})
	if got, want := lines(done), "d.x # a:3:3 | d [x] | descriptor | 9/h\ne.x # b:3:3 | e [x] | descriptor | 9/h"; err != nil || got != want {
		t.Errorf("two files: %v\n%s\nwant\n%s", err, got, want)
	}
	b.Data = a.Data
	if _, err = importenvoy.Translate([]importenvoy.Source{a, b}, importenvoy.Options{}); err == nil || err.Error() != "b:1:9: domain d is that of a too; write one file for each domain, or -merge for the parts of one" {
		t.Errorf("two files of one domain: %v", err)
	}
	if _, err = importenvoy.Translate([]importenvoy.Source{a, b}, importenvoy.Options{Merge: true}); err == nil || err.Error() != "b:3:3: x is there twice, first at a:3:3; the reference looks both up as one text" {
		t.Errorf("two files with one descriptor: %v", err)
	}
	b.Data = []byte(file("key: x, value: y, " + perHour))
	done, err = importenvoy.Translate([]importenvoy.Source{a, b}, importenvoy.Options{Merge: true})
	if got, want := lines(done), "d.x # a:3:3 | d [{key: x, not: [\"y\"]}] | descriptor | 9/h\nd.x_y # b:3:3 | d [x=y] | descriptor | 9/h"; err != nil || got != want {
		t.Errorf("two parts of a domain: %v\n%s\nwant\n%s", err, got, want)
	}
}

// TestNames: all rules have names that files of rules take, each its own, and the same
// whatever else is in the file.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 80)
	var b strings.Builder
	b.WriteString("domain: " + long + "\ndescriptors:\n")
	for _, value := range []string{"a b", "a-b", "a/b", "a//b", "é", "ü", "*", "-", ".", long + "1", long + "2"} {
		fmt.Fprintf(&b, "- {key: k, value: %q, %s}\n", value, perHour)
	}
	all, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(b.String())}}, importenvoy.Options{})
	if err != nil || len(all.Set.Rules) != 11 {
		t.Fatalf("%v, %d rules", err, len(all.Set.Rules))
	}
	alone, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte("domain: " + long + "\ndescriptors:\n- {key: k, value: é, " + perHour + "}\n")}}, importenvoy.Options{})
	if err != nil || alone.Set.Rules[0].Name != all.Set.Rules[4].Name {
		t.Errorf("%v: %s alone, %s among others; want the same", err, alone.Set.Rules[0].Name, all.Set.Rules[4].Name)
	}
}

// TestTooMany: the bounds of a file of rules are named.
func TestTooMany(t *testing.T) {
	many := func(n int, fields string) string {
		var b strings.Builder
		b.WriteString("domain: d\ndescriptors:\n")
		for i := range n {
			fmt.Fprintf(&b, "- {key: k%d, %s}\n", i, fields)
		}
		return b.String()
	}
	stars := "- {key: k, " + perHour + "}\n"
	for i := range 101 {
		stars += fmt.Sprintf("- {key: k, value: '*%d-*'}\n", i+100)
	}
	values, below := "domain: d\ndescriptors:\n", "- {key: k, value: '*', descriptors: [{key: x, "+perHour+"}"
	for i := range 12 {
		values += "- {key: k" + strings.Repeat("_k", i+1) + "}\n" // each gets to all below
	}
	for i := range 9000 {
		below += fmt.Sprintf(", {key: x, value: %d}", i)
	}
	values += below + "]}\n"
	if done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(many(1000, perHour))}}, importenvoy.Options{}); err != nil || len(done.Set.Rules) != 1000 {
		t.Errorf("1000 limits: %v, %d rules", err, len(done.Set.Rules))
	}
	single := strings.ReplaceAll(many(2000, perHour), "key: k", "key: user, value: u")
	if done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(single)}}, importenvoy.Options{Overrides: true}); err != nil || len(done.Set.Rules) != 1 || len(done.Set.Rules[0].Overrides) != 2000 {
		t.Errorf("2000 values of a key, as overrides: %v, %d rules", err, len(done.Set.Rules))
	}
	if _, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(many(1001, perHour))}}, importenvoy.Options{Overrides: true}); err == nil || !strings.HasPrefix(err.Error(), "f:1003:3: this limit would be rule 1001") {
		t.Errorf("1001 keys, as overrides: %v", err)
	}
	half := strings.Replace(many(5001, ""), ": d", ": e", 1)
	if _, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(many(5000, ""))}, {Name: "g", Data: []byte(half)}}, importenvoy.Options{}); err == nil || !strings.HasPrefix(err.Error(), "g:5003:3: more than 10000 descriptors") {
		t.Errorf("two files of 5000 and 5001 descriptors: %v", err)
	}
	for _, x := range []struct{ text, want string }{
		{many(1001, perHour), "f:1003:3: this limit would be rule 1001; a file of rules has at most 1000, and -overrides makes one of those for single values of a key"},
		{many(1, perHour) + stars, "f:4:3: more than 100 patterns with '*' are tried before this one; a rule leaves out at most that"},
		{values, "f:15:38: more than 100000 values lead elsewhere from here and the descriptors before; a file of rules has at most 1 MiB"},
		{many(10_001, ""), "f:10003:3: more than 10000 descriptors; a file of rules has at most 1000 rules"},
	} {
		if _, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(x.text)}}, importenvoy.Options{}); err == nil || err.Error() != x.want {
			t.Errorf("%v, want %s", err, x.want)
		}
	}
}

// TestLevels: seven levels of descriptors are read, eight are not.
func TestLevels(t *testing.T) {
	in := func(levels int) []byte {
		return []byte("domain: d\ndescriptors: " + strings.Repeat("[{key: k, descriptors: ", levels-1) + "[{key: k, " + perHour + "}]" + strings.Repeat("}]", levels-1))
	}
	done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: in(7)}}, importenvoy.Options{})
	if err != nil || len(done.Set.Rules) != 1 || len(done.Set.Rules[0].Match.Descriptor) != 7 {
		t.Errorf("7 levels: %v, %v", err, done.Set.Rules)
	}
	if _, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: in(8)}}, importenvoy.Options{}); err == nil || !strings.HasSuffix(err.Error(), "nested more than 16 deep") {
		t.Errorf("8 levels: %v", err)
	}
}
