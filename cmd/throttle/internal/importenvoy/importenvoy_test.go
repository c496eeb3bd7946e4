package importenvoy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/importenvoy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/rules"
)

// lines is each rule in a line, without what all have.
func lines(r importenvoy.Result) string {
	text := strings.TrimPrefix(string(r.YAML()), importenvoy.Begins+"rules:\n  - name: ")
	for _, cut := range [][2]string{{"\n    match: {domains: ", " | "}, {", descriptor: ", " "}, {"}\n    key: ", " | "}, {"}\n    limits: ", " | all | "}, {"\n    limits: ", " | "}, {"\n    shadow: true", " | shadow"}, {"  - name: ", ""}, {" fixed-window", ""}} {
		text = strings.ReplaceAll(text, cut[0], cut[1])
	}
	return strings.TrimSpace(text)
}

// The words of rate_limit that most cases have.
const perHour = "rate_limit: {unit: hour, requests_per_unit: 9}"

func TestTranslate(t *testing.T) {
	for _, x := range []struct{ name, in, want string }{
		{"two values", "domain: shop\ndescriptors:\n- {key: table, value: carts, " + perHour + "}\n- {key: table, value: orders, rate_limit: {unit: second, requests_per_unit: 300}}\n", `
shop.table_carts # f:3:3 | shop [table=carts] | descriptor | 9/h
shop.table_orders # f:4:3 | shop [table=orders] | descriptor | 300/s`},
		{"nested", "domain: mail\ndescriptors:\n- key: sort\n  value: advert\n  descriptors:\n  - key: to\n    rate_limit: {unit: day, requests_per_unit: 3}\n- key: to\n  rate_limit: {unit: DAY, requests_per_unit: 60}\n", `
mail.sort_advert.to # f:6:5 | mail [sort=advert, to] | descriptor | 3/day
mail.to # f:8:3 | mail [to] | descriptor | 60/day`},
		{"exact before any, with nothing allowed", "domain: ip\ndescriptors:\n- {key: remote_address, " + perHour + "}\n- {key: remote_address, value: 192.0.2.7, rate_limit: {unit: minute, requests_per_unit: 0}}\n", `
ip.remote_address # f:3:3 | ip [{key: remote_address, not: ["192.0.2.7"]}] | descriptor | 9/h
ip.remote_address_192.0.2.7 # f:4:3 | ip [remote_address=192.0.2.7] | descriptor | 0/min`},
		{"unlimited", "domain: d\ndescriptors:\n- {key: ldap, rate_limit: {unlimited: true}}\n", `
d.ldap # f:3:3 | d [ldap] | descriptor | unlimited`},
		{"shadow", "domain: d\ndescriptors:\n- key: service\n  descriptors:\n  - {key: user, value: a, shadow_mode: yes, " + perHour + "}\n  - {key: user, value: b, shadow_mode: no, " + perHour + "}\n", `
d.service.user_a # f:5:5 | d [service, user=a] | descriptor | 9/h | shadow
d.service.user_b # f:6:5 | d [service, user=b] | descriptor | 9/h`},
		{"the patterns of a level, in their order", "domain: d\ndescriptors:\n- {key: path, " + perHour + "}\n- {key: path, value: /a/*, " + perHour + "}\n- {key: path, value: '*.css', " + perHour + "}\n- {key: path, value: /a/b, " + perHour + "}\n- {key: path, value: /q*r, " + perHour + "}\n- {key: path, value: /a/c*}\n", `
d.path # f:3:3 | d [{key: path, not: [/a/*, "*.css", /q*r]}] | descriptor | 9/h
d.path_-a-a1a91329 # f:4:3 | d [{key: path, value: /a/*, not: [/a/b]}] | descriptor | 9/h
d.path_-.css-b817de01 # f:5:3 | d [{key: path, value: "*.css", not: [/a/*]}] | descriptor | 9/h
d.path_-a-b-8355d7f9 # f:6:3 | d [path=/a/b] | descriptor | 9/h
d.path_-q-r-3b1d5c46 # f:7:3 | d [path=/q*r] | descriptor | 9/h`},
		{"a level without a limit is looked up first all the same", "domain: d\ndescriptors:\n- {key: a, descriptors: [{key: b, " + perHour + "}]}\n- {key: a, value: x}\n", `
d.a.b # f:3:26 | d [{key: a, not: [x]}, b] | descriptor | 9/h`},
		{"one count for a pattern", "domain: d\ndescriptors:\n- {key: file, value: doc*, share_threshold: true, " + perHour + "}\n- {key: user, descriptors: [{key: file, value: 'x*', share_threshold: true, descriptors: [{key: verb, value: get, " + perHour + "}]}]}\n", `
d.file_doc-2286849a # f:3:3 | d [file=doc*] | all | 9/h
d.user.file_x-.verb_get-70ab3fb0 # f:4:91 | d [user, file=x*, verb=get] | "entry:user" | 9/h`},
		{"one text for key and value", "domain: d\ndescriptors:\n- {key: user, value: '*', " + perHour + "}\n- {key: user_id, rate_limit: {unit: week, requests_per_unit: 1}}\n", `
d.user-5b1b4a0f # f:3:3 | d [{key: user, not: [id]}] | descriptor | 9/h
d.user_id-4b829b4c # f:3:3 | d [user_id] | descriptor | 9/h
d.user_id-8af925b5 # f:4:3 | d [user=id] | descriptor | 1/week`},
		{"keys that begin with others", "domain: d\ndescriptors:\n- {key: user, " + perHour + "}\n- {key: user_id, " + perHour + "}\n", `
d.user # f:3:3 | d [{key: user, not: [id]}] | descriptor | 9/h
d.user_id # f:4:3 | d [user_id] | descriptor | 9/h
d.user_id-8af925b5 # f:4:3 | d [user=id] | descriptor | 9/h`},
		{"a '*' in keys stands for itself", "domain: d\ndescriptors:\n- key: r/*\n  value: r/*\n  descriptors: [{key: u, " + perHour + "}]\n- {key: r/*, value: x, " + perHour + "}\n- {key: r/*, " + perHour + "}\n- {key: r/a, value: r/a, " + perHour + "}\n", `
d.r-_r-.u-02eb7a99 # f:5:17 | d [r/*=r/*, u] | descriptor | 9/h
d.r-_x-18fa088d # f:6:3 | d [r/*=x] | descriptor | 9/h
d.r-9e0a73e2 # f:7:3 | d [{key: r/*, not: [x, r/*]}] | descriptor | 9/h
d.r-a_r-a-ea50b0ae # f:8:3 | d [r/a=r/a] | descriptor | 9/h`},
		{"units and numbers", "domain: d\ndescriptors:\n- {key: m, rate_limit: {unit: Month, requests_per_unit: 1_000}}\n- {key: y, rate_limit: {unit: year, requests_per_unit: 0x10}}\n- {key: 5, value: true, rate_limit: {unit: week, requests_per_unit: 4294967295}}\n", `
d.m # f:3:3 | d [m] | descriptor | 1000/30day
d.y # f:4:3 | d ["y"] | descriptor | 16/365day
d.5_true # f:5:3 | d ["5=true"] | descriptor | 4294967295/week`},
		{"odd texts", "domain: \"a b\"\ndescriptors:\n- {key: 'k=\"', value: \"\\x01\\x7f\\u2028é#: \", " + perHour + "}\n", `
a-b.k-5f6301fc # f:3:3 | "a b" [{key: "k=\"", value: "\x01\x7f\u2028é#: "}] | descriptor | 9/h`},
		{"nothing limited", "domain: d\ndescriptors:\n- {key: a}\n", "# Rules for the descriptors of Envoy, by 'throttle import envoy'.\nrules: []"},
		{"no descriptors", "{\"domain\": \"d\"}", "# Rules for the descriptors of Envoy, by 'throttle import envoy'.\nrules: []"},
	} {
		done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(x.in)}}, importenvoy.Options{})
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if got := lines(done); got != strings.TrimSpace(x.want) {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, got, strings.TrimSpace(x.want))
		}
		reread(t, x.name, done)
	}
}

// reread wants what is written to be read as the rules that it was written of.
func reread(t *testing.T, name string, done importenvoy.Result) {
	t.Helper()
	root, err := tree.Rules(done.YAML())
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, done.YAML())
		return
	}
	read, err := rules.ParseNode(root)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, done.YAML())
		return
	}
	meant, err := rules.Compile(done.Set)
	if err != nil || read.Version() != meant.Version() {
		t.Errorf("%s: %v; read\n%s, want\n%s", name, err, fmt.Sprint(read.Set()), fmt.Sprint(done.Set))
	}
}

// TestOverrides: limits of single values of a key are overrides of one rule, unless they
// are shadows of their own, or a pattern between them and the rest is for them too.
func TestOverrides(t *testing.T) {
	text := `domain: d
descriptors:
- {key: user, value: jane, rate_limit: {unit: hour, requests_per_unit: 5}}
- {key: user, value: "a,b", rate_limit: {unlimited: true}}
- {key: user, value: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 6}}
- {key: user, value: in-batch, rate_limit: {unit: hour, requests_per_unit: 7}}
- {key: user, value: "in-*", rate_limit: {unit: hour, requests_per_unit: 8}}
- {key: user, rate_limit: {unit: hour, requests_per_unit: 9}}
- key: path
  value: /x
  descriptors:
  - {key: plan, value: free, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: plan, value: paid, rate_limit: {unit: hour, requests_per_unit: 2}}
`
	want := importenvoy.Begins + `rules:
  - name: d.user_tried # f:5:3
    match: {domains: d, descriptor: [user=tried]}
    key: descriptor
    limits: 6/h fixed-window
    shadow: true
  - name: d.user_in-batch # f:6:3
    match: {domains: d, descriptor: [user=in-batch]}
    key: descriptor
    limits: 7/h fixed-window
  - name: d.user_in-9a1f5c4e # f:7:3
    match: {domains: d, descriptor: [{key: user, value: in-*, not: [in-batch]}]}
    key: descriptor
    limits: 8/h fixed-window
  - name: d.user # f:8:3
    match: {domains: d, descriptor: [{key: user, not: [tried, in-*]}]}
    key: descriptor
    limits: 9/h fixed-window
    overrides:
      - {key: [user=jane], limits: 5/h fixed-window}
      - {key: ["user=a%2Cb"], limits: unlimited}
  - name: d.path_-x.plan-3e744b65 # f:12:5
    match: {domains: d, descriptor: [path=/x, plan]}
    key: descriptor
    limits: unlimited
    overrides:
      - {key: ["path=/x,plan=free"], limits: 1/h fixed-window}
      - {key: ["path=/x,plan=paid"], limits: 2/h fixed-window}
`
	done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(text)}}, importenvoy.Options{Overrides: true})
	if err != nil || string(done.YAML()) != want {
		t.Fatalf("%v\n%s\nwant\n%s", err, done.YAML(), want)
	}
	reread(t, text, done)
}

// TestDocs: the example of the documents is what comes of it.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/import.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) < 3 {
		t.Fatalf("%d examples in YAML, want 3", len(blocks))
	}
	done, err := importenvoy.Translate([]importenvoy.Source{{Name: "edge.yaml", Data: blocks[0][1]}}, importenvoy.Options{})
	if got, want := string(done.YAML()), string(blocks[1][1]); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	root, err := tree.Rules(blocks[2][1])
	if err == nil {
		_, err = rules.ParseNode(root)
	}
	if err != nil {
		t.Errorf("the rule by hand: %v", err)
	}
}
