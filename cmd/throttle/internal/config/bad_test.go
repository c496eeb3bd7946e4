package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lookup is the environment of the tests.
func lookup(name string) (string, bool) {
	v, ok := map[string]string{"PORT": "8080", "PASS": "hunter2hunter2hunter2", "LONG": strings.Repeat("x", maxSecret+1), "EMPTY": "", "WORD": "s3cr3t"}[name]
	return v, ok
}

const route = "version: 1\ngateway: {listen: ':80', routes: {to: 'http://a:1'}}\n"

// lines joins lines.
func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

// gateway is a file with a gateway and more fields in it.
func gateway(more ...string) string {
	return lines("version: 1", "gateway:", "  listen: ':80'", "  routes: {to: 'http://a:1'}") + lines(more...)
}

// answers are the fields of a static answer, and what is said of them.
var answers = []struct{ in, want string }{
	{`header: {Content-Length: "500"}, body: hi`, "f:4:66: gateway.routes.degraded.header.Content-Length: frames the answer, which the program does by itself; leave it out"},
	{`header: {transfer-encoding: chunked}`, "f:4:69: gateway.routes.degraded.header.transfer-encoding: frames the answer, "},
	{`header: {X-A: b, Trailer: X}`, "f:4:67: gateway.routes.degraded.header.Trailer: frames the answer, "},
	{`header: {Connection: close}`, "f:4:62: gateway.routes.degraded.header.Connection: frames the answer, "},
	{`header: {Upgrade: h2c}`, "f:4:59: gateway.routes.degraded.header.Upgrade: frames the answer, "},
	{`header: {Bad Name: x}`, "f:4:60: gateway.routes.degraded.header.\"Bad Name\": is not the name of a header field; write letters, digits and hyphens, as Content-Type"},
	{`header: {"X-A:": x}`, "f:4:58: gateway.routes.degraded.header.X-A:: is not the name"},
	{`header: {X-A: "b\r\nSet-Cookie: c"}`, "f:4:55: gateway.routes.degraded.header.X-A: has a line break or a control character; write one line of text"},
	{`header: {X-A: "b\u0001"}`, "f:4:55: gateway.routes.degraded.header.X-A: has a line break or a control character"},
	{`status: 204, body: hi`, "f:4:60: gateway.routes.degraded.body: an answer of status 204 has no body; leave it out, or write another status"},
	{`status: 304, file: x.html`, "f:4:60: gateway.routes.degraded.file: an answer of status 304 has no body"},
}

// A static answer that cannot be sent as it is written is refused.
func TestStaticAnswers(t *testing.T) {
	at := lines("version: 1", "gateway:", "  listen: ':80'", "  routes: {to: 'http://a:1', degraded: {ANSWER}}")
	for _, c := range answers {
		_, err := Parse([]Named{{"f", []byte(strings.ReplaceAll(at, "ANSWER", c.in))}}, lookup)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("degraded: {%s}\ngot  %v\nwant %s", c.in, err, c.want)
		}
	}
	for _, good := range []string{`header: {Content-Type: "text/plain; charset=utf-8", x-a: b}, body: hi`, "status: 204", "status: 304, header: {ETag: x}"} {
		if _, err := Parse([]Named{{"f", []byte(strings.ReplaceAll(at, "ANSWER", good))}}, lookup); err != nil {
			t.Errorf("degraded: {%s}: %v", good, err)
		}
	}
}

// bad are files, and the beginning of what is said of them.
var bad = []struct{ in, want string }{
	{"", "f:1:1: empty"},
	{"hello\n", "f:1:1: must have fields, not hello; they are version, store, rules, gateway, envoy, egress, admin, drain, log"},
	{"version: 1\ngateway: {listen: ':1', routes: {to: 'http://h'}}\nenvoy: {listen: ':2', spread: 1s}\n", "f:3:31: envoy.spread: the gateway has the same; write it there"},
	{"version: 1\nenvoy: {listen: ':2', quota: {idle: 0s}}\n", "f:2:37: envoy.quota.idle: 0s: must be a duration from 1s to 24h"},
	{"version: 1\nenvoy: {listen: ':2', quota: {ttl: 1m}}\n", "f:2:31: envoy.quota: unknown field ttl; the fields are max_streams, max_buckets, idle"},
	{"version: 1\nenvoy: {listen: ':2'}\nadmin: {listen: ':2', token: 0123456789abcdef}\n", "f:3:17: admin.listen: :2 occurs twice"},
	{"version: 1\negress: {listen: ':2', apis: {a: {url: 'ftp://h'}}}\n", "f:2:40: egress.apis.a.url: ftp://h: begins with ftp:; it must be https or http"},
	{"version: 1\negress: {listen: ':2', apis: {a: 'http://h', a: 'http://i'}}\n", "f:2:46: a occurs twice, first in line 2"},
	{"version: 1\negress: {listen: ':2', apis: {}}\n", "f:2:30: egress.apis: empty; write one at least"},
	{"version: 1\negress: {listen: ':2', apis: {a: {url: 'http://h', rate: 4}}}\n", "f:2:58: egress.apis.a.rate: 4: must be a rate, as 4/s or 100/min burst 10; write 4/s"},
	{"version: 1\negress: {listen: ':2', apis: {a: {url: 'http://h', rate: 0/s}}}\n", "f:2:58: egress.apis.a.rate: 0/s: must be a rate above zero, as 4/s or 100/min burst 10"},
	{"version: 1\negress: {listen: ':2', apis: {a: {url: 'http://h', rate: 5/h fixed-window}}}\n", "f:2:58: egress.apis.a.rate: \"5/h fixed-window\": must be a rate above zero"},
	{"version: 1\negress: {listen: ':2', apis: {a: {url: 'http://h', account: Authorization}}}\n", "f:2:61: egress.apis.a.account: Authorization: must be a header field, as header:Authorization"},
	{"version: 1\negress: {listen: ':2', apis: {a: {url: 'http://h', rate: 4/s, fleet: true}}}\n", "f:2:70: egress.apis.a.fleet: needs a store that processes share; write the url of a Redis or PostgreSQL into store"},
	{"version: 1\nstore: {url: 'redis://h'}\negress: {listen: ':2', apis: {a: {url: 'http://h', fleet: true}}}\n", "f:3:59: egress.apis.a.fleet: is for rate, which is missing; what is learnt is not shared"},
	{"version: 1\negress: {listen: ':2', apis: {a: 'http://h'}}\nadmin: {listen: ':2', token: 0123456789abcdef}\n", "f:3:17: admin.listen: :2 occurs twice"},
	{"version: 1\nenvoy: {listen: {address: 'unix:/run/x', reuse_port: true}}\n", "f:2:54: envoy.listen.reuse_port: is for HOST:PORT; leave it out"},
	{"version: 1\n", "f:1:1: no role; write gateway:, envoy:, egress: or admin:"},
	{"gateway: {listen: ':80', routes: {to: 'http://a:1'}}\n", "f:1:1: version is missing: version of this format, in each file: 1"},
	{"version: 2\n", "f:1:10: version: 2: must be 1"},
	{"version: '1'\n", "f:1:10: version: 1: must be 1; write 1 without quotes"},
	{"version: 1\ngatway: {}\n", "f:2:1: unknown field gatway; did you mean gateway?"},
	{"version: 1\nfoo: {}\n", "f:2:1: unknown field foo; the fields are version, store, rules, gateway, envoy, egress, admin, drain, log"},
	{"version: 1\ngateway:\n", "f:2:9: gateway: empty; leave it out, or write its fields: listen, routes, proxies, "},
	{"version: 1\ngateway: {}\n", "f:2:10: gateway: listen is missing: sockets that it serves"},
	{"version: 1\ngateway: [a]\n", "f:2:10: gateway: must have fields, not a list; they are listen, "},
	{"version: 1\nversion: 1\n", "f:2:1: version occurs twice, first in line 1"},
	{"version: 1\na: b: c\n", "f:2:5: not YAML: mapping values are not allowed in this context"},
	{"version: 1\ngateway:\n  listen: 80\n", "f:3:11: gateway.listen: 80: must be an address to listen on, as 127.0.0.1:8080, :8080 or unix:/run/throttle.sock; write it in quotes"},
	{"version: 1\ngateway:\n  listen: localhost\n", "f:3:11: gateway.listen: localhost: must be HOST:PORT, as 127.0.0.1:8080; :8080 is every address of this machine"},
	{"version: 1\ngateway:\n  listen: [':80', ':99999']\n", "f:3:19: gateway.listen[1]: :99999: the port must be a number from 0 to 65535"},
	{"version: 1\ngateway:\n  listen: []\n", "f:3:11: gateway.listen: an empty list; write one at least"},
	{"version: 1\ngateway:\n  listen: {adress: ':80'}\n", "f:3:12: gateway.listen: unknown field adress; did you mean address?"},
	{gateway("  proxies: [10.0.0.0/8, 10.0.0.1/8]"), "f:5:25: gateway.proxies[1]: 10.0.0.1/8: has bits set beyond its length; write 10.0.0.0/8"},
	{gateway("  proxies: example.org"), "f:5:12: gateway.proxies: example.org: must be an address or a network, as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32"},
	{gateway("  proxy_header: Forwarded"), "f:5:17: gateway.proxy_header: is for proxies, which is missing; those of the rules have a header there"},
	{gateway("  headers: tripel"), "f:5:12: gateway.headers: tripel: must be draft, triple, x-triple, x-triple-unix, retry-after, remaining or silent; did you mean triple?"},
	{gateway("  spread: 30"), "f:5:11: gateway.spread: 30: must be a duration from 1ms to 1h; write 30s"},
	{gateway("  spread: 30 seconds"), "f:5:11: gateway.spread: \"30 seconds\": is not a duration; write a number and ms, s, m or h, as in 500ms or 1m30s"},
	{gateway("  spread: 9999999h"), "f:5:11: gateway.spread: 9999999h: must be a duration from 1ms to 1h"},
	{gateway("  spread: 2h"), "f:5:11: gateway.spread: 2h: must be a duration from 1ms to 1h"},
	{gateway("  spread: -1s"), "f:5:11: gateway.spread: -1s: is not a duration; write a number and ms, s, m or h, as in 500ms or 1m30s"},
	{gateway("  underscores: yes"), "f:5:16: gateway.underscores: yes: must be true or false"},
	{gateway("  max_header: 64K"), "f:5:15: gateway.max_header: 64K: is not a size; write a number and B, kB, KiB, MB, MiB, GB or GiB, as in 64KiB"},
	{gateway("  max_header: 65536"), "f:5:15: gateway.max_header: 65536: must be a size, as 64KiB or 10MB from 1KiB to 1MiB; write 65536B"},
	{gateway("  max_header: 1"), "f:5:15: gateway.max_header: 1: must be a size, as 64KiB or 10MB from 1KiB to 1MiB\n"},
	{gateway("  underscores: 'true'"), "f:5:16: gateway.underscores: true: must be true or false; write true without quotes"},
	{gateway("  max_header: 2MiB"), "f:5:15: gateway.max_header: 2MiB: must be a size, as 64KiB or 10MB from 1KiB to 1MiB"},
	{gateway("  max_connections: 0"), "f:5:20: gateway.max_connections: 0: must be a whole number from 1 to 1000000"},
	{gateway("  max_connections: 1.5"), "f:5:20: gateway.max_connections: 1.5: must be a whole number from 1 to 1000000"},
	{gateway("  identity: X-User"), "f:5:13: gateway.identity: must have fields, not X-User; they are header, from"},
	{gateway("  identity: {header: X-User}"), "f:5:13: gateway.identity: from is missing: networks of the proxies that set it in every request"},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes:", "    - {match: /a, to: [ftp://a, x]}"), "f:5:24: gateway.routes[0].to[0]: ftp://a: begins with ftp:; it must be http, https, h2c or dns+srv"},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes:", "    - {match: /a, to: 'a:1'}"), "f:5:23: gateway.routes[0].to: a:1: is not a URL; write http://HOST:PORT"},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes:", "    - {match: /a}"), "f:5:7: gateway.routes[0]: to is missing: upstreams, "},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes:", "    - {to: 'http://a:1'}", "    - {match: /x, to: 'http://a:1'}"), "f:6:7: gateway.routes[1]: never reached: routes[0] takes all requests; move it to the end"},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes:", "    - {match: /x, to: 'http://a:1'}", "    - {match: /x, to: 'http://a:1'}"), "f:6:7: gateway.routes[1]: never reached: routes[0] has the same match"},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes: {to: 'http://a:1', degrade_switch: lean}"), "f:4:46: gateway.routes.degrade_switch: there is no degraded that would answer"},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes: {to: 'http://a:1', degraded: {to: 'http://b', status: 200}}"), "f:4:40: gateway.routes.degraded: to, or status, header and body; not both"},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes: {to: 'http://a:1', tls: {ca: ca.pem}}"), "f:4:35: gateway.routes.tls: is for upstreams by https://, and there is none; write one, or leave it out"},
	{lines("version: 1", "gateway:", "  listen: ':80'", "  routes: {to: 'http://a:1', upgrades: [h2c]}"), "f:4:40: gateway.routes.upgrades: h2c: requests inside it would not be limited"},
	{route + "store: {url: redis}\n", "f:3:14: store.url: redis: must be memory:, redis://HOST, redis://HOST,HOST/?cluster=true, "},
	{route + "store: {url: 'memory:kept'}\n", "f:3:14: store.url: memory:kept: memory: is in this process and names no file; write memory:, and a file into snapshot "},
	{route + "store: {url: 'memory:', away: pass}\n", "f:3:31: store.away: memory: is in this process; leave it out, or name a store in the network"},
	{route + "rules: {keep: x}\n", "f:3:15: rules.keep: is for url, which is missing"},
	{route + "rules: {timeout: 1s}\n", "f:3:18: rules.timeout: is for url, which is missing"},
	{route + "rules: {overlay: store}\n", "f:3:18: rules.overlay: store: must be shared by all instances; "},
	{route + "rules: {url: example.org}\n", "f:3:14: rules.url: example.org: is not a URL; write https://HOST:PORT"},
	{route + "rules: {xds: {server: 'h:1', node: n}}\n", "f:3:14: rules.xds: has rules for what Envoy asks, and nothing answers it; write envoy: {listen: \":8081\"} too"},
	{route + "rules: {xds: {server: 'h:1'}}\n", "f:3:14: rules.xds: node is missing: id of the node for which it has the configuration; "},
	{route + "rules: {xds: {server: 'https://h:1', node: n}}\n", "f:3:23: rules.xds.server: https://h:1: must be HOST:PORT, as envoy-gateway:18001"},
	{route + "rules: {xds: {server: h, node: n}}\n", "f:3:23: rules.xds.server: h: must be HOST:PORT, as envoy-gateway:18001"},
	{route + "rules: {xds: {server: 'h:99999', node: n}}\n", "f:3:23: rules.xds.server: h:99999: the port must be a number from 1 to 65535"},
	{route + "envoy: {listen: ':81'}\nrules: {xds: {server: 'h:1', node: n, tls: {cert: c.pem}}}\n", "f:4:44: rules.xds.tls: cert and key belong together"},
	{route + "admin: {listen: ':6070'}\n", "f:3:17: admin.listen: :6070 is beyond loopback; write token, or tls with client_ca"},
	{route + "admin: {listen: '127.0.0.1:1', tokens: {name: a, secret: short}}\n", "f:3:58: admin.tokens.secret: shorter than 16 bytes; make one by: openssl rand -hex 32"},
	{route + "admin: {listen: '127.0.0.1:1', tokens: [{name: a, secret: 's3cr3t0123456789'}, {name: b, secret: 's3cr3t0123456789'}]}\n", "f:3:98: admin.tokens[1].secret: is the same as that of tokens[0]; give each token its own"},
	{route + "admin: {listen: '127.0.0.1:1', read_token: s3cr3t0123456789, tokens: {name: b, secret: 's3cr3t0123456789'}}\n", "f:3:88: admin.tokens.secret: is the same as that of read_token; "},
	{route + "admin: {listen: '127.0.0.1:1', tokens: [{name: a, secret: 's3cr3t0123456789'}, {name: a, secret: 's3cr3t01234567890'}]}\n", "f:3:87: admin.tokens[1].name: a is the name of tokens[0], too; the audit log could not tell them apart"},
	{route + "admin: {listen: '127.0.0.1:1', token: s3cr3t0123456789, tokens: {name: token, secret: 's3cr3t01234567890'}}\n", "f:3:72: admin.tokens.name: token is the name of token, too; "},
	{route + "admin: {listen: '127.0.0.1:1', hosts: [a.org, 'a.org:8443']}\n", "f:3:47: admin.hosts[1]: a.org:8443: must be a name without scheme, port and '*', as admin.example.org"},
	{route + "admin: {listen: '127.0.0.1:1', hosts: 'https://a.org'}\n", "f:3:39: admin.hosts: https://a.org: must be a name without scheme"},
	{route + "admin: {listen: '127.0.0.1:1', hosts: '*.a.org'}\n", "f:3:39: admin.hosts: *.a.org: must be a name without scheme"},
	{route + "admin: {listen: '127.0.0.1:1', writers: jane}\n", "f:3:41: admin.writers: is for certificates of callers, and listen.tls has no client_ca; write that too, or tokens with write: true"},
	{route + "admin: {listen: 'unix:@run'}\n", "f:3:17: admin.listen: unix:@run: must be a file, not an abstract socket, which every user may open; write "},
	{route + "admin: {listen: 'unix:/run/" + strings.Repeat("a", 110) + "'}\n", "f:3:17: admin.listen: unix:/run/" + strings.Repeat("a", 30) + "...: its path has 115 bytes, and a socket has at most "},
	{route + "admin: {listen: ':80', token: 0123456789abcdef}\n", "f:3:17: admin.listen: :80 occurs twice"},
	{route + "admin: {listen: {address: '127.0.0.1:1', reuse_port: true}}\n", "f:3:42: admin.listen: unknown field reuse_port; the fields are address, tls"},
	{lines("version: 1", "gateway:", "  listen: {address: 'unix:/run/a', reuse_port: true}", "  routes: {to: 'http://a:1'}"), "f:3:48: gateway.listen.reuse_port: is for HOST:PORT; leave it out"},
	{lines("version: 1", "gateway:", "  listen: {address: 'unix:/run/a', proxy_protocol: 10.0.0.0/8}", "  routes: {to: 'http://a:1'}"), "f:3:52: gateway.listen.proxy_protocol: a connection to a unix socket comes from no network; listen on HOST:PORT, or leave it out"},
	{lines("version: 1", "gateway:", "  listen: [':80', {address: 'systemd:web', reuse_port: true}]", "  routes: {to: 'http://a:1'}"), "f:3:56: gateway.listen[1].reuse_port: is for HOST:PORT; leave it out"},
	{route + "store: {url: 'redis://h', create: true}\n", "f:3:35: store.create: is for PostgreSQL; this store has no tables"},
	{route + "store: {url: 'redis://h', lease: 30ms}\n", "f:3:34: store.lease: must be at least 40ms, twice the deadline: "},
	{route + "store: {url: 'redis://h', deadline: 100ms, lease: 150ms}\n", "f:3:51: store.lease: must be at least 200ms, twice the deadline: "},
	{route + "store: {url: 'memory:', snapshot_every: 1m}\n", "f:3:41: store.snapshot_every: is for snapshot, which is missing"},
	{route + "store: {url: 'redis://h', snapshot: x}\n", "f:3:37: store.snapshot: is for memory:; this store keeps what it counts by itself"},
	{route + "log: {level: loud}\n", "f:3:14: log.level: loud: must be debug, info, warn or error"},
	{route + "drain: {delay: '${PORT}'}\n", "f:3:16: drain.delay: ${PORT}: is not a duration; write a number and ms, s, m or h, as in 500ms or 1m30s"},
	{route + "log: {level: '${WORD}'}\n", "f:3:14: log.level: ${WORD}: must be debug, info, warn or error"},
	{route + "store: {url: 'x${PASS}'}\n", "f:3:14: store.url: x${PASS}: must be memory:, "},
	{route + "store: {url: '${NOT_THERE}'}\n", "f:3:14: ${NOT_THERE}: the variable is not set"},
	{route + "store: {url: '${NOT THERE}'}\n", "f:3:14: \"${NOT THERE}\": the name of a variable is letters, digits and '_'; for a file write ${file:PATH}"},
	{route + "store: {url: '${PORT'}\n", "f:3:14: ${PORT: ${ without }; write ${NAME}, or $${ for the text itself"},
	{route + "store: {url: '${LONG}'}\n", "f:3:14: ${LONG}: longer than 64 KiB"},
	{route + "store: {url: '${file:none.txt}'}\n", "f:3:14: ${file:none.txt}: open none.txt: no such file or directory"},
	{route + "store: {url: '${file:/dev/zero}'}\n", "f:3:14: ${file:/dev/zero}: not a file"},
	{route + "store: {url: 'redises://u:hunter2@h'}\n", "f:3:14: store.url: (not shown): must be memory:, "},
	{route + "store: {url: 'rediss//u:hunter2'}\n", "f:3:14: store.url: (not shown): must be memory:, "},
	{route + "rules: {url: 'http://u:hunter2/x@h'}\n", "f:3:14: rules.url: (not shown): is not a URL; write https://HOST:PORT"},
	{route + "rules: {url: 'http://u:12/hunter2@h/'}\n", "f:3:14: rules.url: (not shown): has an @ behind its host; write %40, and %2F, "},
	{route + "rules: {url: 'http://u:12?hunter2@h/'}\n", "f:3:14: rules.url: (not shown): has an @ behind its host; "},
	{route + "rules: {url: 'http://u:12#hunter2@h/'}\n", "f:3:14: rules.url: (not shown): has an @ behind its host; "},
	{route + "admin: {listen: ':1', otlp: 'http://u:hunter2'}\n", "f:3:29: admin.otlp: (not shown): is not a URL; "},
	{route + "admin: {listen: ':1', token: hunter2}\n", "f:3:30: admin.token: "},
	{route + "admin: {listen: ':1', token: 1234hunter2}\n", "f:3:30: admin.token: "},
	{route + "admin: {listen: ':1', token: 48151623421234567}\n", "f:3:30: admin.token: (a secret): must be a secret, as ${NAME} or ${file:PATH}; write it in quotes"},
	{route + "admin: {listen: ':1', tokens: [hunter2]}\n", "f:3:32: admin.tokens[0]: must have fields, not a secret; "},
	{"version: 1\ngateway: {listen: ':80', routes: {to: 'http://u:hunter2@a:1'}}\n", "f:2:39: gateway.routes.to: (not shown): must have no user and no query"},
	{route + "store: {url: ${PORT}}\n", "f:3:15: not YAML: did not find expected ',' or '}'; inside { and } write \"${NAME}\" in quotes"},
}

// Every bad file has one line with the place and what would be right.
func TestBadFiles(t *testing.T) {
	for _, c := range bad {
		c.want = strings.ReplaceAll(c.want, "inside { and }", "inside { } and [ ]")
		_, err := Parse([]Named{{"f", []byte(c.in)}}, lookup)
		if err == nil || !strings.HasPrefix(err.Error()+"\n", c.want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.in, err, c.want)
			continue
		}
		if text := err.Error(); strings.ContainsAny(text, "\n") || strings.Contains(text, "hunter2") || strings.Contains(text, "s3cr3t") || strings.Contains(text, "4815") {
			t.Errorf("%s\ngot %q, want one line without secrets", c.in, text)
		}
	}
}

// Files are read together; a section stands in one of them.
func TestSeveralFiles(t *testing.T) {
	admin := Named{"a", []byte("version: 1\nadmin: {listen: '127.0.0.1:1', token: \"${PASS}\"}\n")}
	c, err := Parse([]Named{{"g", []byte(route)}, admin}, lookup)
	if err != nil || c.Gateway == nil || c.Admin == nil || c.Admin.Token != "hunter2hunter2hunter2" {
		t.Fatalf("two roles in two files: %+v, %v", c, err)
	}
	for _, f := range []struct {
		second Named
		want   string
	}{
		{Named{"h", []byte(route)}, "h:2:1: gateway is in g already; write each section into one file"},
		{Named{"h", []byte("rules: [{name: a, limits: 3/s}]\n")}, "h:1:1: rules: write a list of rules into a file of its own, and name that file, as in rules: {file: rules.yaml}"},
		{Named{"h", []byte("log: {level: info}\n")}, "h:1:1: version is missing: version of this format, in each file: 1"},
		{Named{"h", []byte("version: 1\nadmin: {listen: ':6070'}\n")}, "h:2:17: admin.listen: :6070 is beyond loopback; write token, or tls with client_ca"},
	} {
		if _, err := Parse([]Named{{"g", []byte(route)}, f.second}, lookup); err == nil || err.Error() != f.want {
			t.Errorf("second file %s:\ngot  %v\nwant %s", f.second.Data, err, f.want)
		}
	}
	if err := c.Fail("admin.token", "no good"); err.Error() != "a:2:39: admin.token: no good" {
		t.Errorf("Fail = %v", err)
	}
}

// ${...} stands for variables and files, in values of every kind.
func TestVariables(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "version: 1\nadmin:\n  listen: 127.0.0.1:${PORT}\n  token: ${file:secret}\n  hosts: [\"$${PORT}\", \"a${EMPTY}b\"]\nstore: {url: \"redis://u:${PASS}@h\", instances: \"${PORT}\"}\n"
	c, err := Parse([]Named{{filepath.Join(dir, "f.yaml"), []byte(text)}}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{string(c.Admin.Listen.Address), string(c.Admin.Token), strings.Join(c.Admin.Hosts, " "), string(c.Store.URL)}
	want := []string{"127.0.0.1:8080", "0123456789abcdef", "${PORT} ab", "redis://u:hunter2hunter2hunter2@h"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
	if c.Store.Instances != 8080 {
		t.Errorf("instances = %d, want 8080", c.Store.Instances)
	}
}

// Files are named from where the file stands that names them.
func TestPaths(t *testing.T) {
	c, err := Parse([]Named{{"dir/f.yaml", []byte("version: 1\nadmin: {listen: 'unix:a.sock'}\nrules: {file: rules.yaml, overlay: /abs/o}\n")}}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rules.File != "dir/rules.yaml" || c.Rules.Overlay != "/abs/o" || c.Admin.Listen.Address != "unix:dir/a.sock" {
		t.Errorf("got %s, %s, %s", c.Rules.File, c.Rules.Overlay, c.Admin.Listen.Address)
	}
}
