package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/internal/bubble"
)

const rulesFile = `version: v1
deny: [203.0.113.0/24, "header:User-Agent=*Evil*"]
allow: [path=/healthz]
rules:
  - {name: flood, key: address, limits: 50/s burst 200}
  - name: login
    match: {methods: POST, paths: /login}
    key: address
    limits: [5/m, 50/day]
  - name: per-customer
    match: {paths: /api/*, headers: {X-Tier: free}}
    key: header:X-Customer
    missing: refuse
    limits: 10/s burst 20
    overrides: [{key: acme, limits: 200/s}]
  - {name: tried, shadow: true, match: {client: unknown}, limits: 0/s}
  - {name: sleeping, off: true, limits: 1/s}
  - {name: busy, match: {hosts: example.org}, in_flight: 3}
`

const gatewayFile = `version: 1
rules: {file: rules.yaml}
gateway:
  listen: 127.0.0.1:8080
  proxies: 10.0.0.0/8
  identity: {header: X-User, from: 10.0.0.0/8}
  routes: {to: 'http://127.0.0.1:3000'}
`

// folder is a folder with the files of the tests.
func folder(t *testing.T, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(more); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, more[i]), []byte(more[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// play runs the command in a folder, whose name it cuts from what is written.
func play(t *testing.T, dir string, args ...string) (out, errs string, code int) {
	t.Helper()
	for i, a := range args {
		if strings.HasSuffix(a, ".yaml") || strings.HasSuffix(a, ".json") {
			args[i] = filepath.Join(dir, a)
		}
	}
	out, errs, code = clitest.Play(t.Context(), Run, args...)
	return strings.ReplaceAll(out, dir+"/", ""), strings.ReplaceAll(errs, dir+"/", ""), code
}

// A rule for clients behind a gateway that knows none is warned of.
func TestRulesForClientsThatNobodyKnows(t *testing.T) {
	dir := folder(t, "g.yaml", strings.Replace(gatewayFile, "  identity:", "  # identity:", 1), "id.yaml", gatewayFile,
		"admin.yaml", "version: 1\nrules: {file: rules.yaml}\nadmin: {listen: '127.0.0.1:0'}\n",
		"rules.yaml", "rules:\n  - {name: a, key: address+client, limits: 1/s}\n  - {name: b, match: {client: known}, limits: 1/s}\n"+
			"  - {name: c, match: {client: unknown}, limits: 1/s}\n  - {name: d, off: true, key: client, limits: 1/s}\n")
	want := "warning: rules.yaml: rule a: key client: it is missing in each request, as no client is known without gateway.identity\n" +
		"warning: rules.yaml: rule b: client known: it is for no request, as no client is known without gateway.identity\n"
	if out, errs, code := play(t, dir, "g.yaml"); code != 0 || errs != want {
		t.Errorf("code %d, %s%s, want\n%s", code, out, errs, want)
	}
	for _, name := range []string{"id.yaml", "admin.yaml", "rules.yaml"} {
		if out, errs, code := play(t, dir, name); code != 0 || errs != "" {
			t.Errorf("%s: code %d, %s%s", name, code, out, errs)
		}
	}
}

// Patterns of paths as they stand in a request line are warned of, in a file of rules alone too.
func TestRulesForPathsThatHardlyAre(t *testing.T) {
	dir := folder(t, "rules.yaml", "deny: 'path=/a%20b'\nallow: [path=/100%, 'path=/x?*']\nrules:\n"+
		"  - {name: a, match: {paths: ['/search?q=*', /ok, '/a%2Fb']}, limits: 1/s}\n", "g.yaml", gatewayFile)
	want := "warning: rules.yaml: rule a: path /search?q=*: it is for hardly any request, as paths are compared without their query\n" +
		"warning: rules.yaml: rule a: path /a%2Fb: it is for hardly any request, as paths are compared decoded\n" +
		"warning: rules.yaml: deny path /a%20b: it is for hardly any request, as paths are compared decoded\n" +
		"warning: rules.yaml: allow path /x?*: it is for hardly any request, as paths are compared without their query\n"
	for _, name := range []string{"rules.yaml", "g.yaml"} {
		if out, errs, code := play(t, dir, name); code != 0 || errs != want {
			t.Errorf("%s: code %d, %s%s, want\n%s", name, code, out, errs, want)
		}
	}
}

// Keys by what no descriptor has for which a rule is are warned of.
func TestRulesForDescriptorsWithoutTheirKey(t *testing.T) {
	dir := folder(t, "serve.yaml", "version: 1\nenvoy: {listen: 127.0.0.1:8081}\nrules: {file: rules.yaml}\n", "rules.yaml", `rules:
  - {name: a, match: {domains: edge, descriptor: [user, path=/x]}, key: entry:usr+entry:path, limits: 5/s}
  - {name: b, match: {descriptor: user}, key: address+domain+descriptor, limits: 5/s}
  - {name: c, match: {descriptor: [user, masked_remote_address]}, key: address+entry:user, limits: 5/s}
  - {name: d, match: {domains: edge}, key: address+entry:usr, limits: 5/s}
  - {name: e, off: true, match: {descriptor: user}, key: address, limits: 5/s}
`)
	want := "warning: rules.yaml: rule a: key entry:usr: it is missing in each descriptor, as the match is for those of user and path alone\n" +
		"warning: rules.yaml: rule b: key address: it is missing in each descriptor, as the match is for those of user alone\n"
	for _, name := range []string{"rules.yaml", "serve.yaml"} {
		if out, errs, code := play(t, dir, name); code != 0 || errs != want {
			t.Errorf("%s: code %d, %s%s, want\n%s", name, code, out, errs, want)
		}
	}
}

// Limits by address behind a Unix socket alone, which are one for everybody, are warned of.
func TestRulesForAddressesBehindUnixSockets(t *testing.T) {
	gateway := "version: 1\nrules: {file: rules.yaml}\ngateway: {listen: ['unix:a.sock'%s], routes: {to: 'http://127.0.0.1:3000'}}\n"
	dir := folder(t, "unix.yaml", fmt.Sprintf(gateway, ""), "both.yaml", fmt.Sprintf(gateway, ", '127.0.0.1:8080'"), "rules.yaml",
		"proxies: {trusted: 127.0.0.1}\ndeny: 192.0.2.0/24\nallow: path=/ok\nrules: {name: a, key: address, limits: 1/s}\n")
	const why = "as connections to a unix socket have no address, and no proxy there is trusted to state one; listen on HOST:PORT\n"
	want := "warning: rules.yaml: rule a: key address: it is missing in each request, " + why +
		"warning: rules.yaml: deny 192.0.2.0/24: it is for no request, " + why
	if out, errs, code := play(t, dir, "unix.yaml"); code != 0 || errs != want {
		t.Errorf("code %d, %s%s, want\n%s", code, out, errs, want)
	}
	if out, errs, code := play(t, dir, "both.yaml"); code != 0 || errs != "" {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}

// Entries of deny for clients, and header fields that the gateway removes, are warned of.
func TestRulesForWhatNoRequestHas(t *testing.T) {
	bare := "version: 1\nrules: {file: rules.yaml}\ngateway: {listen: 127.0.0.1:8080, routes: {to: 'http://127.0.0.1:3000'}}\n"
	dir := folder(t, "g.yaml", bare, "all.yaml", gatewayFile+"  underscores: true\n", "rules.yaml",
		"deny: [client=mallory, 192.0.2.1]\nallow: ['header:X_Probe=*']\nrules:\n"+
			"  - {name: a, key: address+header:x-forwarded-for, limits: 1/s}\n"+
			"  - {name: b, match: {headers: {X_Tier: free, X-Tier: free}}, key: header:X-Tier, limits: 1/s}\n")
	want := "warning: rules.yaml: rule a: key header:x-forwarded-for: it is missing in each request, as the gateway removes it, as no proxy is trusted to set it\n" +
		"warning: rules.yaml: rule b: header X_Tier: it is for no request, as the gateway removes fields with _ in their names\n" +
		"warning: rules.yaml: deny client: it is for no request, as no client is known without gateway.identity\n" +
		"warning: rules.yaml: allow header:X_Probe: it is for no request, as the gateway removes fields with _ in their names\n"
	if out, errs, code := play(t, dir, "g.yaml"); code != 0 || errs != want {
		t.Errorf("code %d, %s%s, want\n%s", code, out, errs, want)
	}
	if out, errs, code := play(t, dir, "all.yaml"); code != 0 || errs != "" {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}

// Limits that a request has to pass together, with keys in different slots, are warned of.
func TestRulesInDifferentSlots(t *testing.T) {
	const end = "answered 503, as slots in store.url puts their keys in different slots of Redis; leave slots out\n"
	rulesOf := "rules:\n  - {name: a, key: address, limits: [1/s, 9/h]}\n  - {name: b, key: client, limits: 1/s}\n" +
		"  - {name: c, shadow: true, limits: [1/s, 9/h]}\n  - {name: d, off: true, limits: 1/s}\n  - {name: e, in_flight: 3}\n"
	file := gatewayFile + "store: {url: 'redis://h/?cluster=true&slots=1024'}\n"
	dir := folder(t, "rules.yaml", rulesOf, "g.yaml", file, "one.yaml", strings.Replace(file, "&slots=1024", "&slots=1", 1))
	want := "warning: rules.yaml: rule a: a request that its 2 limits are for is " + end +
		"warning: rules.yaml: rules a and b: a request that two of them are for is " + end
	if out, errs, code := play(t, dir, "g.yaml"); code != 0 || errs != want {
		t.Errorf("code %d, %s%s, want\n%s", code, out, errs, want)
	}
	if out, errs, code := play(t, dir, "one.yaml"); code != 0 || errs != "" {
		t.Errorf("one slot: code %d, %s%s", code, out, errs)
	}
}

func TestCheck(t *testing.T) {
	dir := folder(t, "rules.yaml", rulesFile, "g.yaml", gatewayFile,
		"a.yaml", "version: 1\nadmin: {listen: '127.0.0.1:6070'}\n",
		"bad.yaml", "version: 1\ngateway:\n  lisen: ':80'\n",
		"badrules.yaml", "rules:\n  - {name: a, limits: 10/fortnight}\n",
		"badjson.json", "// rules\n{\"rules\": [{\"name\": \"a\", \"limits\": \"10/s\",}]}",
		"comma.json", `{"rules": [{"name": "a", "limits": "5/s",}]}`,
		"trailing.json", `{"rules": [{"name": "a", "limits": "5 per s"},]}`,
		"commented.json", "{ // a comment\n \"rules\": [{\"name\": \"a\", \"limits\": \"5/s\",}]}",
		"serve.json", "{\"version\": 1, // a comment\n \"admin\": {\"listen\": \":0\",}}",
		"custom.yaml", "rules: {name: a, key: customer, limits: 1/s, cost: bytes}\n",
		"gone.yaml", "version: 1\nrules: {file: nowhere.yaml}\nadmin: {listen: ':0', token: 0123456789abcdef}\n",
		"names.yaml", "version: 1\nrules: {file: badrules.yaml}\nadmin: {listen: 'localhost:0'}\n",
		"tls.yaml", "version: 1\nadmin: {listen: {address: ':0', tls: {cert: no.pem, key: no.pem, client_ca: no.pem}}}\n",
		"field.yaml", strings.ReplaceAll(gatewayFile, "X-User", "X_User"),
		"store.yaml", "version: 1\nstore: {url: 'redis://a,b'}\nadmin: {listen: 'localhost:0'}\n",
		"over.yaml", "version: 1\nstore: {url: 'memory:', snapshot: rules.yaml}\nadmin: {listen: 'localhost:0'}\n",
		"envoy.yaml", "version: 1\nenvoy: {listen: 127.0.0.1:8081}\nrules: {file: rules.yaml}\n",
		"good.json", "{\"version\": 1, \"admin\": {\"listen\": {\"address\": \"127.0.0.1:1\"}}}")
	for _, c := range []struct {
		args string
		code int
		want string // the beginning of what is written
	}{
		{"g.yaml", 0, "g.yaml: good: gateway on 127.0.0.1:8080 with 1 route; rules rules.yaml: version v1, 6 rules\n"},
		{"g.yaml a.yaml", 0, "g.yaml, a.yaml: good: gateway on 127.0.0.1:8080 with 1 route; admin on 127.0.0.1:6070; rules rules.yaml: version v1, 6 rules\n"},
		{"rules.yaml", 0, "rules.yaml: good: version v1, 6 rules\n"},
		{"good.json", 0, "good.json: good: admin on 127.0.0.1:1; no rules, so nobody is limited\n"},
		{"envoy.yaml", 0, "envoy.yaml: good: envoy on 127.0.0.1:8081; rules rules.yaml: version v1, 6 rules\nwarning: rules.yaml: rule flood: it is for no descriptor, and there is no gateway"},
		{"custom.yaml -value customer=x -cost bytes=3", 0, "custom.yaml: good: version "},
		{"bad.yaml", 2, "throttle: bad.yaml:3:3: gateway: unknown field lisen; did you mean listen?\n"},
		{"badrules.yaml", 2, "throttle: badrules.yaml:2:23: rules[0].limits: "},
		{"names.yaml", 2, "throttle: badrules.yaml:2:23: rules[0].limits: "},
		{"badjson.json", 2, "throttle: badjson.json:2:43: not JSON: "},
		{"comma.json", 2, "throttle: comma.json:1:42: not JSON: invalid character '}'"},
		{"trailing.json", 2, "throttle: trailing.json:1:47: not JSON: invalid character ']'"},
		{"commented.json", 2, "throttle: commented.json:2:42: not JSON: invalid character '}'"},
		{"serve.json", 2, "throttle: serve.json:2:27: not JSON: invalid character '}'"},
		{"custom.yaml", 2, "throttle: custom.yaml:1:23: rules[0].key[0]: unknown part \"customer\"; "},
		{"gone.yaml", 2, "throttle: gone.yaml:2:15: rules.file: open nowhere.yaml: no such file or directory\n"},
		{"tls.yaml", 2, "throttle: tls.yaml:2:38: admin.listen.tls: open no.pem: no such file or directory\n"},
		{"field.yaml", 2, "throttle: field.yaml:6:22: gateway.identity.header: \"X_user\": must be a field of its own, as X-Customer\n"},
		{"over.yaml", 2, "throttle: over.yaml:2:35: store.snapshot: rules.yaml has something else in it than a snapshot, "},
		{"store.yaml", 2, "throttle: store.yaml:2:14: store.url: redis://: several hosts; add ?cluster=true"},
		{"none.yaml", 2, "throttle: check: open none.yaml: no such file or directory\n"},
		{"", 2, "throttle: check: no file; write 'throttle check FILE'\n"},
		{"- -", 2, "throttle: check: - can be read once; write the name of a file\n"},
		{"rules.yaml -after 2", 2, "throttle: check: -after is for a request; write -request 'GET /x'\n"},
		{"rules.yaml -after -1 -request /x", 2, "throttle: check: -after -1: must be from 0 to 100000\n"},
		{"rules.yaml -value address=x -request /x", 2, "throttle: check: -value or -cost: the program names a value \"address\"; it must be letters, digits, '-', '_' and '.', and not the name of a built-in part\n"},
		{"rules.yaml -store -request /x", 2, "throttle: check: -store: the files name no store in the network\n"},
		{"rules.yaml -request /x -store redis://localhost", 2, "throttle: check: -store takes no URL: it looks at the store that the file names\n"},
		{"rules.yaml -request x", 2, "throttle: check: -request x: must be METHOD PATH, as in 'GET /x'\n"},
		{"rules.yaml -request /x -address home", 2, "throttle: check: -address home: must be an address, as 192.0.2.1\n"},
		{"rules.yaml -request /x -H Name", 2, "throttle: check: invalid value \"Name\" for flag -H: must be 'Name: value'"},
		{"rules.yaml -descriptor =x", 2, "throttle: check: -descriptor \"=x\": an entry without a key; write KEY=VALUE,KEY=VALUE\n"},
		{"rules.yaml -descriptor a=b", 2, "throttle: check: write -domain and -descriptor, as Envoy sends both\n"},
		{"rules.yaml -domain x", 2, "throttle: check: write -domain and -descriptor, as Envoy sends both\n"},
		{"rules.yaml -domain x -request /x", 2, "throttle: check: -request and -descriptor: write one of them\n"},
		{"rules.yaml -domain x -address 192.0.2.1", 2, "throttle: check: -address is for -request; the address of a descriptor is an entry: -descriptor remote_address=192.0.2.1\n"},
		{"rules.yaml -descriptor a=b -client jane", 2, "throttle: check: -client is for -request: a descriptor has no client\n"},
		{"rules.yaml -descriptor a=b -H X-A:b", 2, "throttle: check: -H is for -request: a descriptor has no header\n"},
		{"a.yaml -request /x", 2, "throttle: check: -request: the files name no file of rules\n"},
	} {
		out, errs, code := play(t, dir, strings.Fields(c.args)...)
		if code != c.code || !strings.HasPrefix(out+errs, c.want) || code != 0 && strings.Count(errs, "\n") != 1 {
			t.Errorf("check %s: code %d\ngot  %s%s\nwant %s", c.args, code, out, errs, c.want)
		}
	}
}

// A decision is explained by its rules, keys and limits, and by what would make the
// request pass.
func TestRequest(t *testing.T) {
	dir := folder(t, "rules.yaml", rulesFile, "g.yaml", gatewayFile,
		"killed.yaml", "version: v2\nkill: true\nrules: {name: all, limits: 0/s}\n",
		"tried.yaml", "version: v3\nrules: {name: all, limits: 5/s, shadow: {limits: 2/s}}\n",
		"envoy.yaml", `version: v4
deny: 203.0.113.0/24
rules:
  - {name: all, limits: 9/s}
  - {name: slow, match: {domains: edge, descriptor: [generic_key=slow, remote_address]}, key: address, limits: 5/s}
  - {name: user, match: {descriptor: [{key: user, not: [root, "ad*"]}]}, key: entry:user, limits: 5/s}
  - {name: each, match: {domains: shop}, key: domain+descriptor, limits: 5/s}
`)
	var all strings.Builder
	for _, c := range []struct {
		code int
		args []string
	}{
		{0, []string{"rules.yaml", "-request", "GET /x", "-address", "192.0.2.7"}},
		{0, []string{"rules.yaml", "-request", "GET https://example.org/api/x", "-H", "X-Tier: free", "-H", "X-Customer: acme"}},
		{0, []string{"rules.yaml", "-request", "GET /api/x", "-H", "X-Tier: free", "-H", "X-Customer: other"}},
		{4, []string{"rules.yaml", "-request", "GET /api/x", "-H", "X-Tier: free"}},
		{4, []string{"rules.yaml", "-request", "GET //api/x", "-H", "X-Tier: free"}}, // a path, as the gateway sees it
		{4, []string{"rules.yaml", "-request", "POST /login", "-after", "5"}},
		{4, []string{"rules.yaml", "-request", "/", "-address", "203.0.113.9"}},
		{4, []string{"rules.yaml", "-request", "/", "-H", "User-Agent: Evil/1"}},
		{0, []string{"rules.yaml", "-request", "/healthz"}},
		{0, []string{"g.yaml", "-request", "/", "-address", "10.0.0.1", "-H", "X-Forwarded-For: 192.0.2.9", "-H", "X-User: jane"}},
		{0, []string{"g.yaml", "-request", "/", "-address", "192.0.2.8", "-H", "X-Forwarded-For: 192.0.2.9", "-H", "X-User: jane"}},
		{0, []string{"killed.yaml", "-request", "/"}},
		{0, []string{"tried.yaml", "-request", "/", "-after", "2"}},
		{0, []string{"envoy.yaml", "-domain", "edge", "-descriptor", "generic_key=slow,remote_address=192.0.2.7", "-cost", "hits_addend=2"}},
		{4, []string{"envoy.yaml", "-domain", "edge", "-descriptor", "generic_key=slow,remote_address=203.0.113.7"}},
		{0, []string{"envoy.yaml", "-domain", "other", "-descriptor", "user=root"}},
		{0, []string{"envoy.yaml", "-request", "/"}},
		{4, []string{"envoy.yaml", "-domain", "other", "-descriptor", "user=jane%2C", "-after", "5"}},
		{4, []string{"envoy.yaml", "-domain", "shop", "-descriptor", "user=jane%2C,plan=free", "-after", "5"}},
		{4, []string{"envoy.yaml", "-domain", "shop", "-descriptor", "user=" + strings.Repeat("x", 300), "-after", "5"}},   // too long for an override
		{4, []string{"envoy.yaml", "-domain", "edge", "-descriptor", "generic_key=slow,remote_address=no", "-after", "5"}}, // without the key
	} {
		var out, errs string
		var code int
		bubble.Test(t, func(t *testing.T) { out, errs, code = play(t, dir, c.args...) })
		if code != c.code || errs != "" {
			t.Errorf("check %q: code %d, %s; want %d", c.args, code, errs, c.code)
		}
		all.WriteString("$ throttle check " + strings.ReplaceAll(strings.Join(c.args, " "), dir+"/", "") + "\n" + out + "\n")
	}
	clitest.Golden(t, "request.golden", all.String())
}

// TestExampleOfDocs: docs/serve.md shows what check says of the rules at its top.
func TestExampleOfDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(text)
	_, rules, _ := strings.Cut(docs, "```yaml\n# rules.yaml\n")
	rules, _, _ = strings.Cut(rules, "```")
	_, want, ok := strings.Cut(docs, "$ throttle check rules.yaml -request 'GET /api/x' -H 'X-Api-Key: 1' -after 20\n")
	want, _, _ = strings.Cut(want, "```")
	if !ok || rules == "" {
		t.Fatal("docs/serve.md has no rules.yaml, or no such example")
	}
	dir := folder(t, "rules.yaml", rules)
	bubble.Test(t, func(t *testing.T) {
		out, errs, code := play(t, dir, "rules.yaml", "-request", "GET /api/x", "-H", "X-Api-Key: 1", "-after", "20")
		if out != want || errs != "" || code != 4 {
			t.Errorf("code %d, %s\n%s\nwant 4 and\n%s", code, errs, out, want)
		}
	})
}

// Nothing is charged by asking: the same question has the same answer.
func TestJSON(t *testing.T) {
	dir := folder(t, "rules.yaml", rulesFile, "bad.yaml", "version: 1\nfoo: 1\n")
	out, _, code := play(t, dir, "rules.yaml", "-request", "POST /login", "-after", "5", "-json")
	var got struct {
		OK     bool
		Answer struct {
			OK           bool
			Reason, Rule string
			Way          string
			Rules        []struct {
				Name   string
				Limits []struct {
					OK   bool
					Left int64
					Wait string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if a := got.Answer; code != 4 || !got.OK || a.OK || a.Reason != "over" || a.Rule != "login" || a.Way == "" || len(a.Rules) != 6 || len(a.Rules[1].Limits) != 2 || a.Rules[1].Limits[1].Left != 44 {
		t.Errorf("code %d: %+v", code, got)
	}
	out, _, code = play(t, dir, "bad.yaml", "-json")
	var flaw struct {
		OK           bool
		Line, Column int
		What         string
	}
	if err := json.Unmarshal([]byte(out), &flaw); err != nil || code != 2 || flaw.OK || flaw.Line != 2 || flaw.Column != 1 || !strings.HasPrefix(flaw.What, "unknown field foo") {
		t.Errorf("code %d: %+v, %v", code, flaw, err)
	}
}

func TestHelp(t *testing.T) {
	out, _, code := clitest.Play(t.Context(), Run, "-h")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	clitest.Golden(t, "help.golden", out)
}

// TestCheckQuota: with the quota service it warns of rules that no bucket is subject to.
func TestCheckQuota(t *testing.T) {
	dir := folder(t,
		"quota.yaml", "version: 1\nenvoy: {listen: 127.0.0.1:8081, quota: {}}\nrules: {file: quota-rules.yaml}\n",
		"quota-rules.yaml", "version: v1\nrules:\n- {name: sorted, match: {descriptor: [a, b]}, limits: 1/s}\n- {name: other, match: {descriptor: [b, a]}, limits: 1/s}\n",
	)
	stdout, stderr, code := play(t, dir, "quota.yaml")
	if code != 0 || !strings.Contains(stdout, "good: envoy on 127.0.0.1:8081 with quotas; rules ") ||
		!strings.Contains(stderr, "rule other: it is for no bucket of the quota service, whose entries stand in the order of their keys: a and b\n") || strings.Contains(stderr, "sorted:") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
}
