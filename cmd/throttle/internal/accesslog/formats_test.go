package accesslog

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

const second = `[22/Nov/2026:19:14:21 +0100]`

var at = time.Date(2026, 11, 22, 18, 14, 21, 0, time.UTC)

// gist is an Entry in words.
func gist(e *Entry) string {
	return fmt.Sprintf("%s %v %s host=%s %s raw=%s client=%s referer=%s agent=%s forwarded=%s %d %d %q",
		e.Time.Format(time.RFC3339Nano), e.Address, e.Method, e.Host, e.Path, e.RawPath, e.Client, e.Referer, e.Agent, e.Forwarded, e.Status, e.Bytes, e.More)
}

var v4 = netip.MustParseAddr("192.0.2.1")

// formats are lines of each format, and what they say.
var formats = []struct {
	name, format, fields, head, line string
	want                             Entry
}{
	{
		name: "common", line: `192.0.2.1 - - ` + second + ` "GET /a?b=c HTTP/1.1" 200 12`,
		want: Entry{Time: at, Address: v4, Method: "GET", Path: "/a", Status: 200, Bytes: 12},
	},
	{
		name: "combined", line: `2001:db8::1 - alice b ` + second + ` "POST /a%20b%2Fc HTTP/2.0" 304 - "-" "a \"b\" c"`,
		want: Entry{Time: at, Address: netip.MustParseAddr("2001:db8::1"), Client: "alice b", Method: "POST", Path: "/a b/c", RawPath: "/a%20b%2Fc", Status: 304, Agent: `a "b" c`},
	},
	{
		name: "combined", line: `192.0.2.1 - - ` + second + ` "\x16\x03\x01" 400 0 "-" "-" extra 0.003`,
		want: Entry{Time: at, Address: v4, Status: 400},
	},
	{
		name: "nginx", line: `192.0.2.1 - - ` + second + ` "GET http://example.com:80/x HTTP/1.1" 200 1 "https://r/" "x\x22y" "198.51.100.1, 10.0.0.1"`,
		want: Entry{Time: at, Address: v4, Method: "GET", Host: "example.com:80", Path: "/x", Status: 200, Bytes: 1, Referer: "https://r/", Agent: `x"y`, Forwarded: "198.51.100.1, 10.0.0.1"},
	},
	{
		name: "vhost", line: `example.com:443 192.0.2.1 - - ` + second + ` "GET / HTTP/1.1" 200 1 "-" "x"`,
		want: Entry{Time: at, Address: v4, Method: "GET", Host: "example.com:443", Path: "/", Status: 200, Bytes: 1, Agent: "x"},
	},
	{
		name: "envoy", line: `[2026-11-22T18:14:21.250Z] "GET /x?y HTTP/1.1" 200 - 0 1337 5 4 "198.51.100.1" "curl/8" "f3a" "api.example.com" "10.0.0.2:80"`,
		want: Entry{Time: at.Add(250 * time.Millisecond), Method: "GET", Host: "api.example.com", Path: "/x", Status: 200, Bytes: 1337, Agent: "curl/8", Forwarded: "198.51.100.1"},
	},
	{
		name: "json", line: `{"ts": 1795371261.5, "nested": {"deep": [1, {"x": null}]}, "request": {"remote_ip": "192.0.2.1", "method": "GET", "host": "h", "uri": "/a\u002fb?c"}, "status": 200, "size": 7, "user_id": "bob", "ok": true}`,
		want: Entry{Time: at.Add(500 * time.Millisecond), Address: v4, Method: "GET", Host: "h", Path: "/a/b", Status: 200, Bytes: 7, Client: "bob"},
	},
	{
		name: "json", fields: "time=when.start,address=Peer,header:x-api-key=key,value:plan=plan,cost:size=len",
		line: `{"time":"none","when":{"start":"2026-11-22T18:14:21Z"},"peer":"192.0.2.1:443","address":"x","key":["k1","k2"],"plan":"gold","len":12,"path":"/"}`,
		want: Entry{Time: at, Address: v4, Path: "/", More: []string{"k1", "gold", "12"}},
	},
	{
		name: "json", line: `{"start_time":"2026-11-22T18:14:21.000Z","downstream_remote_address":"192.0.2.1:5000","method":"GET","path":"/p","authority":"a","response_code":200,"bytes_sent":3}`,
		want: Entry{Time: at, Address: v4, Method: "GET", Path: "/p", Host: "a", Status: 200, Bytes: 3},
	},
	{
		name: "json", line: `{"ts": 1795371261, "request": {"remote_ip": "192.0.2.1", "client_ip": "198.51.100.1"}, "ip": "198.51.100.2"}`,
		want: Entry{Time: at, Address: v4},
	}, // the first counts
	{
		name: "json", line: `{"ClientAddr":"192.0.2.1:50","ClientHost":"192.0.2.1","DownstreamContentSize":5,"DownstreamStatus":200,"RequestHost":"h","RequestMethod":"GET","RequestPath":"/a?b","time":"2026-11-22T19:14:21+01:00"}`,
		want: Entry{Time: at, Address: v4, Method: "GET", Path: "/a", Host: "h", Status: 200, Bytes: 5},
	},
	{
		name: "csv", head: "Time;IP;Verb;URL;http_x_tenant", line: `2026-11-22 18:14:21;192.0.2.1;GET;"/a;""b""";t1`,
		want: Entry{Time: at, Address: v4, Method: "GET", Path: `/a;"b"`, More: []string{"t1"}},
	},
	{
		name: "csv", head: "time,remote_addr,path,status", line: `1795371261000,192.0.2.1,/a,`,
		want: Entry{Time: at, Address: v4, Path: "/a"},
	},
	{
		name: "as given", format: `$msec|$remote_addr|$request|$http_x_api_key|$status`, line: `1795371261.000|192.0.2.1|GET /a HTTP/1.1|k|429`,
		want: Entry{Time: at, Address: v4, Method: "GET", Path: "/a", Status: 429, More: []string{"k"}},
	},
	{
		name: "re", format: `re:^(?P<time>\S+) (?P<address>\S+) (?P<method>\S+) (?P<path>\S+)(?: (?P<http_x_tenant>\S+))?$`, line: `2026-11-22T18:14:21Z 192.0.2.1 GET /a t`,
		want: Entry{Time: at, Address: v4, Method: "GET", Path: "/a", More: []string{"t"}},
	},
	{
		name: "re", format: `re:^(?P<time>\S+) (?P<address>\S+)(?: (?P<http_x_tenant>\S+))?$`, line: `2026-11-22T18:14:21Z unix:`,
		want: Entry{Time: at},
	},
	{
		name: "json", line: `{"ts": 1795371261, "client": "", "user": "bob", "status": "-", "code": 429, "ip": "-", "addr": "192.0.2.1", "request": "GET /a HTTP/1.1", "uri": "/index.php"}`,
		want: Entry{Time: at, Address: v4, Method: "GET", Path: "/a", Client: "bob", Status: 429},
	}, // the first that is not empty counts
	{
		name: "json", fields: "path=uri", line: `{"ts": 1795371261, "request": "GET /a HTTP/1.1", "uri": "/b"}`,
		want: Entry{Time: at, Method: "GET", Path: "/b"},
	},
	{
		name: "csv", head: "time,timestamp,ip,remote_addr,client,user,http_x_a,http_x_a", line: `1795371261,,192.0.2.1,198.51.100.1,,bob,k,`,
		want: Entry{Time: at, Address: v4, Client: "bob", More: []string{"k"}},
	},
	{
		name: "as given", format: `$msec|$ip|$remote_addr|$request|$uri|$host|$server_name`, line: `1795371261|-|192.0.2.1|GET /a HTTP/1.1|/index.php|example.com|_`,
		want: Entry{Time: at, Address: v4, Method: "GET", Path: "/a", Host: "example.com"},
	},
	{
		name: "as given", format: `$msec|$request|$uri`, fields: "path=uri", line: `1795371261|GET /a HTTP/1.1|/b`,
		want: Entry{Time: at, Method: "GET", Path: "/b"},
	},
	{
		name: "re", format: `re:^(?P<time>\S+) (?P<ip>\S+) (?P<remote_addr>\S+)$`, line: `1795371261 192.0.2.1 -`,
		want: Entry{Time: at, Address: v4},
	},
}

func TestFormats(t *testing.T) {
	for _, test := range formats {
		t.Run(test.name, func(t *testing.T) {
			var given Fields
			if test.fields != "" {
				var err error
				if given, err = ParseFields(test.fields); err != nil {
					t.Fatal(err)
				}
			}
			f, err := formatOf(test.format, given, strings.TrimPrefix(test.head+"\n"+test.line+"\n", "\n"))
			if err != nil || f.Name != test.name {
				t.Fatalf("format %+v, %v; want %s", f, err, test.name)
			}
			s := f.setter()
			var e Entry
			if what := f.parse(test.line, &s, &e); what != "" {
				t.Fatalf("parse(%s): %s", test.line, what)
			}
			if got, want := gist(&e), gist(&test.want); got != want {
				t.Errorf("parse(%s)\n got %s\nwant %s", test.line, got, want)
			}
		})
	}
}

func TestNamesOfFormat(t *testing.T) {
	given, err := ParseFields("header:x-api-key=key, value:plan=plan,cost:size=bytes")
	if err != nil {
		t.Fatal(err)
	}
	f, err := formatOf("json", given, "")
	if want := []Name{{Header, "X-Api-Key"}, {Value, "plan"}, {Cost, "size"}}; err != nil || !slices.Equal(f.Names, want) {
		t.Errorf("names %v, %v; want %v", f.Names, err, want)
	}
}

// What is no HTTP request is told from what has no request line.
func TestNoHTTP(t *testing.T) {
	const begin, end = `192.0.2.1 - - ` + second + ` "`, `" 400 0`
	for _, test := range []struct {
		format, line string
		want         bool
	}{
		{"common", begin + end, true},
		{"common", begin + "-" + end, true},
		{"common", begin + `\x16\x03\x01` + end, true},
		{"common", begin + `GET / HTTP/1.1` + end, false},
		{"common", begin + `CONNECT example.com:443 HTTP/1.1` + end, false},
		{"envoy", `[2026-11-22T18:14:21.250Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"`, true},
		{"json", `{"time": 1795371261, "request_method": "", "request_uri": ""}`, true},
		{"json", `{"time": 1795371261, "method": "GET", "path": ""}`, false},
		{"json", `{"time": 1795371261, "request": "7f3a", "path": "/"}`, false},
		{"json", `{"time": 1795371261, "ip": "192.0.2.1"}`, false},
		{"$msec $remote_addr", "1795371261 192.0.2.1", false},
	} {
		f, err := formatOf(test.format, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		s, e := f.setter(), Entry{}
		if what := f.parse(test.line, &s, &e); what != "" || e.NoHTTP != test.want {
			t.Errorf("%s: no HTTP is %v, %s; want %v", test.line, e.NoHTTP, what, test.want)
		}
	}
}

func TestBadLines(t *testing.T) {
	re := `re:^(?P<time>\S+) (?P<address>\S+)$`
	for _, test := range []struct{ format, line, want string }{
		{"combined", `192.0.2.1 - -`, `no " [" after $remote_user`},
		{"combined", `example - - ` + second + ` "GET / HTTP/1.1" 200 1 "-" "-"`, `$remote_addr is not an address: "example"`},
		{"combined", `192.0.2.1 - - [22/Foo/2026:19:14:21 +0100] "GET / HTTP/1.1" 200 1 "-" "-"`, `$time_local is not a time: "22/Foo/2026:19:14:21 +0100"`},
		{"combined", `192.0.2.1 - - ` + second + ` "GET / HTTP/1.1" OK 1 "-" "-"`, `$status is not a number: "OK"`},
		{"combined", `192.0.2.1 - - ` + second + ` "GET / HTTP/1.1" 200 1 "-" "x`, `no "\"" after $http_user_agent`},
		{"common", `192.0.2.1 - - ` + second + ` "GET / HTTP/1.1" 200 -1`, `$body_bytes_sent is not a number: "-1"`},
		{"envoy", `x`, `does not begin with "["`},
		{"json", `x`, `not an object of JSON: "x"`},
		{"json", `{"path": "/"}`, `no time among its names; name it by -fields time=NAME`},
		{"json", `{"time": 1795371261, "path": "/`, `malformed JSON at ""`},
		{"json", `{"time": 1795371261} x`, `more after the object: "x"`},
		{"json", `{"time": 1795371261, "a": bad}`, `malformed JSON at "}"`},
		{"json", `{"time": 1795371261, "status": "no"}`, `status is not a number: "no"`},
		{"json", strings.Repeat(`{"a":`, 100), `malformed JSON at`},
		{re, `x`, "does not match the expression"},
		{re, `x 192.0.2.1`, `not a time: "x"`},
	} {
		f, err := formatOf(test.format, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if what := f.parser.parse(test.line, &setter{}, new(Entry)); !strings.HasPrefix(what, strings.TrimSuffix(test.want, `"`)) {
			t.Errorf("%s: parse(%s): %s, want %s", test.format, test.line, what, test.want)
		}
	}
	f, err := newColumns("time,path", nil)
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"1795371261": "not 2 cells", "1795371261,/,x": "not 2 cells", `1795371261,"/`: "a quote that does not end", "x,/": "not a time",
	} {
		if what := f.parser.parse(line, &setter{}, new(Entry)); !strings.HasPrefix(what, want) {
			t.Errorf("csv: parse(%s): %s, want %s", line, what, want)
		}
	}
}

func TestBadFormats(t *testing.T) {
	for _, test := range []struct{ format, fields, head, want string }{
		{"apache", "", "", `format "apache" is not known`},
		{"$remote_addr $status", "", "", "the format has no time"},
		{"$msec$status", "", "", "nothing between $msec and the next $"},
		{"$msec $ x", "", "", "a $ without a name"},
		{"re:(", "", "", "missing closing )"},
		{"re:(?P<path>.*)", "", "", "the expression has no group for the time"},
		{"csv", "", "a,b", "the line of names has none for the time"},
		{"csv", "path=where", "time,b", "the line of names has no where"},
		{"$msec $status", "host=vhost", "", "the format has no $vhost"},
		{"", "", "some words\nand more", "the format is not known"},
		{"", "host=vhost", "some words\nand more", "the format is not known"},
		{"", "host=vhost", `192.0.2.1 - - [22/Nov/2026:18:14:21 +0000] "GET / HTTP/1.1" 200 5`, "as format common: the format has no $vhost"},
		{"", "", "\x7fELF\x00\x01", "the format is not known"},
		{"", "", "{\"when\": \"2026-11-22T18:14:21Z\"}\n{\"when\": 1}", "as format json: no time among its names; name it by -fields time=NAME"},
		{"", "time=at", "{\"time\": \"2026-11-22T18:14:21Z\"}", "as format json: no time among its names; name it by -fields time=NAME"},
		{"", "", "{\"a\": 1}\nsome words\nand more", "the format is not known"},
	} {
		var given Fields
		if test.fields != "" {
			given, _ = ParseFields(test.fields)
		}
		if _, err := formatOf(test.format, given, test.head); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("format %q of %q: %v, want %s", test.format, test.head, err, test.want)
		}
	}
	long := Fields{{Target: "host", Source: strings.Repeat("x", mostSource+1)}}
	if err := CheckFormat("", long); err == nil || !strings.Contains(err.Error(), "of 65 bytes; at most 64") {
		t.Errorf("a long source: %v", err)
	}
	for _, text := range []string{"", "path", "path=", "nope=x", "header:=x", "remote_addr=x", "other:a=b"} {
		if all, err := ParseFields(text); err == nil {
			t.Errorf("ParseFields(%q) = %v", text, all)
		}
	}
}

func TestTimes(t *testing.T) {
	want := time.Date(2026, 11, 22, 18, 14, 21, 0, time.UTC)
	for _, test := range []struct {
		text string
		plus time.Duration
		bad  bool
	}{
		{text: "22/Nov/2026:19:14:21 +0100"},
		{text: "[22/Nov/2026:12:44:21 -0530]"},
		{text: "22/Nov/2026:18:14:21"},
		{text: "22/Nov/2026:18:14:21.123 +0000", plus: 123 * time.Millisecond},
		{text: "2026-11-22T18:14:21Z"},
		{text: "2026-11-22T19:14:21.5+01:00", plus: 500 * time.Millisecond},
		{text: "2026-11-22 18:14:21"},
		{text: "2026-11-22 18:14:21,25", plus: 250 * time.Millisecond},
		{text: "2026-11-22T19:14:21+0100"},
		{text: "1795371261"},
		{text: "1795371261.123456", plus: 123456 * time.Microsecond},
		{text: "1795371261000"},
		{text: "1795371261000000"},
		{text: "1795371261000000000"},
		{text: "1.795371261e9"},
		{text: "", bad: true},
		{text: "22/Nov/2026:25:14:21 +0100", bad: true},
		{text: "00/Nov/2026:19:14:21 +0100", bad: true},
		{text: "31/Feb/2026:19:14:21 +0100", bad: true},
		{text: "29/Feb/2026:19:14:21 +0100", bad: true},
		{text: "22/ovD/2026:19:14:21 +0100", bad: true},
		{text: "22/Nov/2026:19:14:21 CET", bad: true},
		{text: "12", bad: true},
		{text: "123456789abc", bad: true},
		{text: "2026-13-22T18:14:21Z", bad: true},
		{text: "-1795371261", bad: true},
		{text: "1795371261.x", bad: true},
	} {
		var c clock
		for range 2 { // the second time it may be the one that was kept
			got, ok := c.parse(test.text)
			if ok == test.bad || ok && !got.Equal(want.Add(test.plus)) {
				t.Errorf("parse(%q) = %v, %v; want %v", test.text, got, ok, want.Add(test.plus))
			}
		}
	}
}

// Whatever is in a line, no parser panics, and what it reads has a time.
func FuzzLines(f *testing.F) {
	var all []*Format
	for _, one := range templates {
		x, err := newTemplate(one.name, one.text, nil)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, x)
	}
	head, err := newColumns("time,address,path", nil)
	if err != nil {
		f.Fatal(err)
	}
	all = append(all, head, newObject(nil))
	for _, line := range []string{`{"time":1795371261,"a":["x",{}]}`, `192.0.2.1 - - ` + second + ` "GET /%zz HTTP/1.1" 200 1 "\\" "\"`, `1795371261,"a""",`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, x := range all {
			var e Entry
			_ = x.parser.parse(line, &setter{more: len(x.Names)}, &e)
		}
	})
}
