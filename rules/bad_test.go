package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// secondRule is a file with text in its second rule, on the third line.
func secondRule(text string) string {
	return "{\"rules\": [\n\t{\"name\": \"ok\", \"limits\": \"1/s\"},\n\t{\"name\": \"r\", " + text + "}\n]}"
}

var badFiles = []struct{ text, want string }{
	{``, `1:1: not JSON: unexpected end of JSON input`},
	{"{\n\"rules\": [\n", `3:1: not JSON: unexpected end`},
	{"{\n  \"rules\" [", `2:11: not JSON: invalid character '['`},
	{`{"rules": []} {}`, `1:15: not JSON: invalid character '{' after top-level value`},
	{"{\"rules\": []\xff}", `1:13: not UTF-8`},
	{`[]`, `1:1: must be an object`},
	{`null`, `1:1: null; write a value, or leave it out`},
	{`{}`, `1:1: no "rules"`},
	{`{"rules": null}`, `1:11: rules: null; to limit no request, write []`},
	{`{"rules": 3}`, `1:11: rules: must be a list of objects, [{...}]`},
	{`{"rule": []}`, `1:2: rule: unknown field; did you mean rules?`},
	{`{"rules": [], "rule": 1}`, `1:15: rule: unknown field; did you mean rules?`},
	{`{"rules": [], "burst": 1}`, `1:15: burst: unknown field; the fields are version, serial, kill, proxies, ipv6_prefix, ipv4_prefix, deny, allow, rules, switches`},
	{`{"rules": [], "Version": "1"}`, `1:15: Version: unknown field`},
	{`{"rules": [], "rules": []}`, `1:15: "rules" occurs twice`},
	{`{"rules": [], "ü": 1, "rules": []}`, `1:23: "rules" occurs twice`},
	{`{"rules": [], "version": 1}`, `1:26: version: must be text`},
	{`{"rules": [], "version": "a b"}`, `1:26: version: must be letters`},
	{`{"rules": [], "proxies": {"trusted": ["10.0.0.0/8", "0.0.0.0/0"]}}`, `1:53: proxies.trusted[1]: trusts everybody`},
	{`{"rules": [], "proxies": {"trusted": "10.1.0.0/8"}}`, `1:38: proxies.trusted[0]: 10.1.0.0/8 has bits set beyond its length; write 10.0.0.0/8`},
	{`{"rules": [], "proxies": {"trusted": "::ffff:10.0.0.0/104"}}`, `1:38: proxies.trusted[0]: ::ffff:10.0.0.0/104 is an IPv4 network`},
	{`{"rules": [], "proxies": {"trusted": "proxy"}}`, `1:38: proxies.trusted[0]: "proxy" is neither an address nor a network`},
	{`{"rules": [], "proxies": {"trusted": "10.0.0.1", "header": "X-Real-IP"}}`, `1:60: proxies.header: must be X-Forwarded-For or Forwarded`},
	{`{"rules": [], "proxies": {"header": "Forwarded"}}`, `1:26: proxies: no proxy is trusted`},
	{`{"rules": [], "ipv6_prefix": 8}`, `1:30: ipv6_prefix: must be from 32 to 128`},
	{`{"rules": [], "ipv6_prefix": 129}`, `1:30: ipv6_prefix: must be from 32 to 128`},
	{`{"rules": [], "ipv6_prefix": 64.0}`, `1:30: ipv6_prefix: must be a whole number`},
	{`{"rules": [], "deny": "somebody"}`, `1:23: deny[0]: "somebody" is neither an address nor a network; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32, or PART=PATTERN`},
	{`{"rules": [], "allow": ["10.0.0.1", "address=10.*"]}`, `1:37: allow[1]: write an address or network without`},
	{`{"rules": [], "allow": "user=x"}`, `1:24: allow[0]: unknown part "user"; write address, client, header:NAME, host, method, path, path:N, of a descriptor domain, descriptor, entry:KEY, or bytes, customer`},
	{`{"rules": [], "allow": "client="}`, `1:24: allow[0]: a pattern is 1 to 256 bytes`},
	{`{"rules": [{"limits": "1/s"}]}`, `1:12: rules[0].name: a rule needs a name`},
	{`{"rules": [{"name": "a/b", "limits": "1/s"}]}`, `1:21: rules[0].name: a rule needs a name`},
	{`{"rules": [{"name": "a", "limits": "1/s"}, {"name": "a", "limits": "1/s"}]}`, `1:53: rules[1].name: another rule has the name "a"`},
	{secondRule(`"burst": 1`), `3:16: rules[1].burst: unknown field; the fields are name, off, shadow, phase, match, key, missing, away, cost, debt, limits,`},
	{secondRule(`"off": "yes", "limits": "1/s"`), `3:23: rules[1].off: must be true or false`},
	{secondRule(`"shadow": true`), `3:2: rules[1]: neither limits, in_flight nor priority`},
	{secondRule(`"limits": []`), `3:26: rules[1].limits: an empty list; leave it out`},
	{secondRule(`"limits": "1/s", "match": {"descriptor": []}`), `3:57: rules[1].match.descriptor: an empty list`},
	{secondRule(`"limits": "1/s", "match": {"descriptor": "a="}`), `3:57: rules[1].match.descriptor: no pattern behind '='; write "a" for any value`},
	{secondRule(`"limits": "1/s", "match": {"descriptor": ["a", "=x"]}`), `3:63: rules[1].match.descriptor[1]: the key of an entry is 1 to 256 bytes`},
	{secondRule(`"limits": "1/s", "match": {"descriptor": 7}`), `3:57: rules[1].match.descriptor: must be KEY, KEY=PATTERN, or {`},
	{secondRule(`"limits": "1/s", "match": {"descriptor": {"value": "x"}}`), `3:57: rules[1].match.descriptor: no "key"; write it, as in {`},
	{secondRule(`"limits": "1/s", "match": {"descriptor": {"key": "a", "value": ""}}`), `3:57: rules[1].match.descriptor: an empty "value"; leave it out`},
	{secondRule(`"limits": "1/s", "match": {"descriptor": {"key": "a", "but": "x"}}`), `3:70: rules[1].match.descriptor.but: unknown field; the fields are key, value, not`},
	{secondRule(`"limits": "1/s", "match": {"descriptor": {"key": "a", "not": ["x", "*"]}}`), `3:83: rules[1].match.descriptor[0].not[1]: matches every value`},
	{secondRule(`"limits": "1/s", "match": {"domains": ""}`), `3:54: rules[1].match.domains[0]: a pattern is 1 to 256 bytes`},
	{secondRule(`"limits": "1/s", "match": {"domains": "a", "paths": "/"}`), `3:42: rules[1].match: a descriptor has no methods, hosts, paths, headers or client; match its entries`},
	{secondRule(`"limits": "1/s", "key": "entry:a"`), `3:40: rules[1].key[0]: only a descriptor has the part entry:a; write domains or descriptor`},
	{secondRule(`"limits": "1/s", "key": "path", "match": {"domains": "a"}`), `3:40: rules[1].key[0]: a descriptor has no path; write domain, descriptor, entry:KEY or address`},
	{secondRule(`"limits": "1/s", "key": "entry:", "match": {"domains": "a"}`), `3:40: rules[1].key[0]: entry: and the key of an entry go together`},
	{secondRule(`"in_flight": 1, "match": {"domains": "a"}`), `3:29: rules[1].in_flight: nothing tells when`},
	{secondRule(`"limits": "1/s", "shadow": {"in_flight": 2}, "match": {"domains": "a"}`), `3:57: rules[1].shadow.in_flight: nothing tells when`},
	{secondRule(`"limits": "1/s", "debt": true`), `3:41: rules[1].debt: is for a cost that the program names`},
	{secondRule(`"limits": "1/s", "debt": true, "cost": 3, "match": {"domains": "a"}`), `3:41: rules[1].debt: is for a cost that the program names`},
	{secondRule(`"limits": "1/s", "cost": "hits_addend"`), `3:41: rules[1].cost: the program knows no "hits_addend"`},
	{secondRule(`"limits": 3`), `3:26: rules[1].limits: must be text, as in "10/s burst 20", or {"count": 10, "period": "1s"}`},
	{secondRule(`"limits": "10"`), `3:26: rules[1].limits: `},
	{secondRule(`"limits": ["10/s", "10/fortnight"]`), `3:35: rules[1].limits[1]: `},
	{secondRule(`"limits": "10/s burst"`), `3:26: rules[1].limits: `},
	{secondRule(`"limits": "10/s burst 0"`), `3:26: rules[1].limits: `},
	{secondRule(`"limits": "10/s sometimes"`), `3:26: rules[1].limits: `},
	{secondRule(`"limits": "10/s fixed-window burst 3"`), `3:26: rules[1].limits: `},
	{secondRule(`"limits": "10/s burst 3 fixed-window"`), `3:26: rules[1].limits: "10/s burst 3 fixed-window": "burst 3 fixed-window" is too much`},
	{secondRule(`"limits": {"count": 5000000, "period": "1h", "kind": "sliding-log"}`), `3:26: rules[1].limits[0]: a sliding-log counts up to 1000000`},
	{secondRule(`"limits": {"count": 5, "period": "1h", "kind": "sliding-slots", "slots": 1001}`), `3:26: rules[1].limits[0]: only sliding-slots has slots, from 1 to 1000`},
	{secondRule(`"limits": {"count": 5, "period": "1h", "slots": 10}`), `3:26: rules[1].limits[0]: only sliding-slots has slots`},
	{`{"rules": [], "ipv4_prefix": 7}`, `1:30: ipv4_prefix: must be from 8 to 32`},
	{`{"rules": [], "ipv4_prefix": 33}`, `1:30: ipv4_prefix: must be from 8 to 32`},
	{`{"rules": [], "proxies": {"trusted": ["0.0.0.0/1", "128.0.0.0/1"]}}`, `1:38: proxies.trusted: these networks together are everybody`},
	{secondRule(`"limits": "10/day calendar-window Mars/Base"`), `3:26: rules[1].limits: "10/day calendar-window Mars/Base": the time zone "Mars/Base" is not known`},
	{secondRule(`"limits": {"count": 1, "period": "1s", "burst": 2, "kind": "fixed-window"}`), `3:26: rules[1].limits[0]: a fixed-window has no burst`},
	{secondRule(`"limits": ""`), `3:26: rules[1].limits: `},
	{secondRule(`"limits": {"count": 1}`), `3:26: rules[1].limits: no "period"; write it, as in {"count": 10`},
	{secondRule(`"limits": {"period": "1s"}`), `3:26: rules[1].limits: no "count"; write it, as in {"count": 10`},
	{secondRule(`"limits": ["1/s", {"burst": 5, "period": "1s"}]`), `3:34: rules[1].limits[1]: no "count"`},
	{secondRule(`"shadow": {"limits": {"period": "1s"}}, "limits": "1/s"`), `3:37: rules[1].shadow.limits: no "count"`},
	{secondRule(`"limits": {"count": 1, "period": ""}`), `3:49: rules[1].limits.period: must be a duration, as in "1m30s"`},
	{secondRule(`"limits": {"count": 1, "period": 1}`), `3:49: rules[1].limits.period: must be a duration, as in "1m30s"`},
	{secondRule(`"limits": {"count": 1, "period": "1"}`), `3:49: rules[1].limits.period: must be a duration, as in "1m30s"`},
	{secondRule(`"limits": {"count": 1, "period": "0s"}`), `3:26: rules[1].limits: the period is 0s; write a duration above zero, as in "1m30s"`},
	{secondRule(`"limits": {"count": 1, "period": "1s", "brust": 1}`), `3:55: rules[1].limits.brust: unknown field; did you mean burst?`},
	{secondRule(`"limits": {"count": -1, "period": "1s"}`), `3:26: rules[1].limits[0]: a negative count`},
	{secondRule(`"limits": {"count": 1, "period": "1s", "kind": "x"}`), `3:26: rules[1].limits: unknown kind "x"`},
	{secondRule(`"limits": ["1/s", {"count": 9223372036854775808, "period": "1s"}]`), `3:44: rules[1].limits[1].count: must be a whole number below 2^63`},
	{secondRule(`"limits": ["1/s","1/s","1/s","1/s","1/s","1/s","1/s","1/s","1/s"]`), `3:26: rules[1].limits: more than 8 limits`},
	{secondRule(`"limits": "1/s", "key": "adress"`), `3:40: rules[1].key[0]: unknown part "adress"; write address, client,`},
	{secondRule(`"limits": "1/s", "key": ["client", "header:"]`), `3:51: rules[1].key[1]: header: and the name of a field`},
	{secondRule(`"limits": "1/s", "key": "path:0"`), `3:40: rules[1].key[0]: path: and a number`},
	{secondRule(`"limits": "1/s", "key": "client+client"`), `3:40: rules[1].key[1]: the part occurs twice`},
	{secondRule(`"limits": "1/s", "key": "header:x-k+header:X-K"`), `3:40: rules[1].key[1]: the part occurs twice`},
	{secondRule(`"limits": "1/s", "key": "address+client+host+path+method"`), `3:40: rules[1].key: more than 4 parts`},
	{secondRule(`"limits": "1/s", "key": "client", "missing": "ignore"`), `3:61: rules[1].missing: must be share, pass or refuse`},
	{secondRule(`"limits": "1/s", "missing": "pass"`), `3:44: rules[1].missing: the rule has no key`},
	{secondRule(`"limits": "1/s", "key": "host", "overrides": {"key": "Example.org:8080", "limits": "2/s"}`), `3:69: rules[1].overrides[0].key[0]: must be a host without scheme, port and final dot, as in *.example.org`},
	{secondRule(`"limits": "1/s", "key": "path", "overrides": {"key": "/a//b", "limits": "2/s"}`), `3:69: rules[1].overrides[0].key[0]: paths are compared without // and dot segments; write "/a/b"`},
	{secondRule(`"limits": "1/s", "key": "method", "overrides": {"key": "get", "limits": "2/s"}`), `3:71: rules[1].overrides[0].key[0]: must be a method in capitals, as in GET`},
	{secondRule(`"limits": "1/s", "key": "path:1", "overrides": {"key": "a/*", "limits": "2/s"}`), `3:71: rules[1].overrides[0].key[0]: must be one segment of a path, without '/'`},
	{secondRule(`"in_flight": -1`), `3:29: rules[1].in_flight: must be a whole number above zero`},
	{secondRule(`"in_flight": 0`), `3:29: rules[1].in_flight: must be a whole number above zero; "limits": "0/s" allows nothing`},
	{secondRule(`"in_flight": 1, "key": "client", "overrides": {"key": "a", "in_flight": -1}`), `3:88: rules[1].overrides.in_flight: must be a whole number above zero`},
	{secondRule(`"limits": "1/s", "cost": 0`), `3:41: rules[1].cost: must be a whole number above zero`},
	{secondRule(`"limits": "1/s", "cost": "octets"`), `3:41: rules[1].cost: the program knows no "octets"; write a number, or one of: bytes, customer`},
	{secondRule(`"limits": "1/s", "priority": "urgent"`), `3:45: rules[1].priority: unknown priority "urgent"; write low, normal, high or critical`},
	{secondRule(`"limits": "1/s", "priority": 3`), `3:45: rules[1].priority: must be text`},
	{secondRule(`"limits": "1/s", "shadow": true, "priority": "low"`), `3:61: rules[1].priority: a shadow rule gives no priority`},
	{secondRule(`"limits": "1/s", "phase": "during"`), `3:42: rules[1].phase: must be before or after`},
	{secondRule(`"limits": "1/s", "phase": "before", "key": "client"`), `3:59: rules[1].key: before authentication no client is known`},
	{secondRule(`"limits": "1/s", "phase": "before", "match": {"client": "known"}`), `3:72: rules[1].match.client: before authentication`},
	{secondRule(`"limits": "1/s", "match": {"client": "some"}`), `3:53: rules[1].match.client: must be known or unknown`},
	{secondRule(`"limits": "1/s", "match": {"methods": "get"}`), `3:54: rules[1].match.methods[0]: must be a method in capitals`},
	{secondRule(`"limits": "1/s", "match": {"hosts": ["*.münchen.example"]}`), `3:53: rules[1].match.hosts[0]: must be a host as requests have it, in ASCII: xn--`},
	{secondRule(`"limits": "1/s", "match": {"hosts": ["a.org", "b.org:80"]}`), `3:62: rules[1].match.hosts[1]: must be a host without`},
	{secondRule(`"limits": "1/s", "match": {"paths": "api"}`), `3:52: rules[1].match.paths[0]: must begin with '/' or '*'`},
	{secondRule(`"limits": "1/s", "match": {"paths": "/a//b"}`), `3:52: rules[1].match.paths[0]: paths are compared without // and dot segments; write "/a/b"`},
	{secondRule(`"limits": "1/s", "match": {"paths": []}`), `3:52: rules[1].match.paths: an empty list`},
	{secondRule(`"limits": "1/s", "match": {"headers": {"a b": "*"}}`), `3:62: rules[1].match.headers.a b: not the name of a header field`},
	{secondRule(`"limits": "1/s", "match": {"headers": {"X-A": "*", "x-a": "*"}}`), `3:74: rules[1].match.headers.x-a: the field occurs twice`},
	{secondRule(`"limits": "1/s", "match": {"headers": {"X-A": ""}}`), `3:62: rules[1].match.headers.X-A: a pattern is`},
	{secondRule(`"limits": "1/s", "match": {"headers": {"X-A": 1}}`), `3:62: rules[1].match.headers.X-A: must be text`},
	{secondRule(`"limits": "1/s", "overrides": {"key": "a", "limits": "2/s"}`), `3:46: rules[1].overrides[0]: the rule has no key`},
	{secondRule(`"limits": "1/s", "key": "client", "overrides": {"key": ["a", "b"], "limits": "2/s"}`), `3:71: rules[1].overrides[0].key: the rule's key has 1 parts`},
	{secondRule(`"limits": "1/s", "key": "client", "overrides": {"key": "a"}`), `3:63: rules[1].overrides[0]: neither limits nor in_flight; to limit nothing, write "limits": "unlimited"`},
	{secondRule(`"limits": "1/s", "key": "client", "overrides": [{"key": "a", "limits": "2/s"}, {"key": "a", "limits": "2/s"}]`), `3:103: rules[1].overrides[1].key: another override has the same key`},
	{secondRule(`"limits": "1/s", "key": "address", "overrides": {"key": "2001:db8::1", "limits": "2/s"}`), `3:72: rules[1].overrides[0].key[0]: all of 2001:db8::/64 is one client`},
	{secondRule(`"limits": "1/s", "key": "address", "overrides": {"key": "10.*", "limits": "2/s"}`), `3:72: rules[1].overrides[0].key[0]: "10.*" is neither an address nor a network`},
	{`{"rules": [], "serial": -1}`, `1:25: serial: must not be negative`},
	{`{"rules": [], "kill": "yes"}`, `1:23: kill: must be true or false`},
	{`{"rules": [], "deny": "host=example.org:8080"}`, `1:23: deny[0]: must be a host without scheme, port and final dot, as in *.example.org`},
	{`{"rules": [], "allow": "path=status"}`, `1:24: allow[0]: must begin with '/' or '*'`},
	{`{"rules": [], "deny": "method=Trace"}`, `1:23: deny[0]: must be a method in capitals, as in GET`},
	{`{"rules": [], "allow": "path:1=/status"}`, `1:24: allow[0]: must be one segment of a path, without '/'`},
	{`{"rules": [], "deny": "path=/a//b"}`, `1:23: deny[0]: paths are compared without // and dot segments; write "/a/b"`},
	{`{"rules": [], "deny": {"entry": "10.0.0.1", "until": "tomorrow"}}`, `1:54: deny.until: must be a time with its zone, as in "2026-12-01T00:00:00Z"`},
	{`{"rules": [], "deny": {"entry": "10.0.0.1", "at": "0001-01-01T00:00:00+01:00"}}`, `1:51: deny.at: must be a time with its zone`},
	{`{"rules": [], "kill": {"on": true, "until": "9999-12-31T23:59:59-01:00"}}`, `1:45: kill.until: must be a time with its zone`},
	{`{"rules": [], "deny": {"entry": "10.0.0.1", "whay": "x"}}`, `1:45: deny.whay: unknown field; did you mean why?`},
	{`{"rules": [], "deny": [7]}`, `1:24: deny[0]: must be text, or {"entry": TEXT,`},
	{`{"rules": [], "deny": {"entry": "10.0.0.1", "why": "a\nb"}}`, `1:52: deny[0].why: control characters`},
	{`{"rules": [], "allow": {"entry": "10.0.0.1", "by": "` + strings.Repeat("x", 257) + `"}}`, `1:52: allow[0].by: longer than 256 bytes`},
	{secondRule(`"limits": "1/s", "away": "local"`), `3:41: rules[1].away: must be share, pass or refuse`},
	{secondRule(`"limits": "1/s", "lookup": true`), `3:43: rules[1].lookup: the rule has no key`},
	{secondRule(`"limits": "1/s", "shadow": "8/s"`), `3:43: rules[1].shadow: must be true, or {"limits": "8/s"}`},
	{secondRule(`"limits": "1/s", "shadow": {}`), `3:43: rules[1].shadow: neither limits nor in_flight`},
	{secondRule(`"limits": "1/s", "shadow": {"limits": "8"}`), `3:54: rules[1].shadow.limits: `},
	{secondRule(`"limits": "1/s", "key": "client", "overrides": {"key": "a", "limits": "2/s", "until": "2026"}`), `3:102: rules[1].overrides.until: must be a time`},
	{secondRule(`"limits": "1/s", "key": "client", "overrides": [` + strings.Repeat(`{"key": "a", "limits": "2/s", "until": "2026-12-01T00:00:00Z"},`, 8) + `{"key": "a", "limits": "2/s"}]`), `3:576: rules[1].overrides[8].key: another override has the same key`},
	{`{"rules": [], "switches": [{"value": true}]}`, `1:28: switches[0].name: a switch needs a name`},
	{`{"rules": [], "switches": [{"name": "a"}, {"name": "a"}]}`, `1:52: switches[1].name: another switch has the name "a"`},
	{`{"rules": [], "switches": {"name": "a", "value": ["x"]}}`, `1:50: switches.value: must be text, a number, true or false`},
	{`{"rules": [], "switches": {"name": "a", "cases": {"key": "", "value": 1}}}`, `1:58: switches[0].cases[0].key: a pattern is`},
	{`{"rules": [], "switches": {"name": "a", "cases": [` + strings.Repeat(`{"key": "x", "value": 1}, `, 8) + `{"key": "x", "value": 1}]}}`, `1:259: switches[0].cases[8]: more than 8 cases of one key`},
	{`{"rules": [], "switches": {"name": "a", "cases": [` + strings.Repeat(`{"key": "*", "value": 1}, `, 100) + `{"key": "*", "value": 1}]}}`, `1:2651: switches[0].cases[100]: more than 100 cases with '*'`},
	{secondRule(`"limits": "1/s", "off": true, "key": "nonsense"`), `3:53: rules[1].key[0]: unknown part`}, // what is off is checked
	{secondRule(`"match": {"a\u0000\n` + strings.Repeat("b", 1000) + `": 1}`), `3:`},
	{strings.Repeat(`{"rules":`, 10), `1:91: not JSON`},
	{strings.Repeat(`{"rules":`, 10) + `1` + strings.Repeat(`}`, 10), `1:82: nested too deep`},
	{`{"rules": [` + strings.Repeat(`1,`, 100_000) + `1]}`, `1:200008: more than 100000 values`},
	{strings.Repeat(" ", rules.MaxSize+1), `1:1: longer than 1048576 bytes`},
	{`{"rules": [], "deny": [` + strings.Repeat(`"path=/*", `, 101) + `"client=x"]}`, `1:1124: deny[100]: more than 100 entries with '*'`},
	{secondRule(`"limits": "1/s", "key": "address", "overrides": [` + strings.Repeat(`{"key": "10.0.0.0/8", "limits": "2/s"}, `, 1000) + `{"key": "10.0.0.1", "limits": "2/s"}]`), `3:40065: rules[1].overrides[1000]: more than 1000 overrides with '*' or a network`},
	{`{"rules": [], "allow": [` + strings.Repeat(`"10.0.0.1", `, 10_000) + `"10.0.0.1"]}`, `1:24: allow: more than 10000 entries`},
	{secondRule(`"limits": "1/s", "key": "client", "overrides": [` + strings.Repeat(`{"key": "*", "limits": "2/s"}, `, 101) + `{"key": "x", "limits": "2/s"}]`), `3:3164: rules[1].overrides[100]: more than 100 overrides with '*'`},
	{`{"rules": [` + strings.Repeat(`{"name": "a"}, `, 1001) + `{}]}`, `1:11: rules: more than 1000 rules`},
}

// TestBad: what is wrong is said in one line, with its place.
func TestBad(t *testing.T) {
	for _, x := range badFiles {
		_, err := rules.Parse([]byte(x.text), "customer", "bytes")
		var e *rules.Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "rules: "+x.want) {
			t.Errorf("Parse(%.200s)\n got %v\nwant rules: %s...", x.text, err, x.want)
			continue
		}
		if text := err.Error(); strings.ContainsAny(text, "\n\r\x00") || len(text) > 600 {
			t.Errorf("Parse(%.200s) = %q, want one short line", x.text, text)
		}
	}
}

// TestParseUnknownCost: to a program that knows no costs, none are listed.
func TestParseUnknownCost(t *testing.T) {
	_, err := rules.Parse([]byte(`{"rules": [{"name": "a", "limits": "1/s", "cost": "octets"}]}`))
	if want := `rules[0].cost: the program knows no "octets"; write a number`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Parse: %v, want ...%s", err, want)
	}
}
