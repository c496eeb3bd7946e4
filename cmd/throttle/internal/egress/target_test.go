package egress

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// proxyOf is a Proxy of APIs by their URLs.
func proxyOf(t testing.TB, urls map[string]string) *Proxy {
	t.Helper()
	c := Config{APIs: map[string]API{}}
	for name, to := range urls {
		c.APIs[name] = API{URL: to}
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var someAPIs = map[string]string{
	"github": "https://api.github.com", "v2": "https://Example.org/base/v2/", "v2x": "https://example.org:443/base", "plain": "http://plain.test:8000",
}

func TestFind(t *testing.T) {
	p := proxyOf(t, someAPIs)
	for _, c := range []struct{ in, want string }{
		{"/github", "github https://api.github.com"},
		{"/github/", "github https://api.github.com/"},
		{"/github/user/a%2Fb?q=%zz;x", "github https://api.github.com/user/a%2Fb?q=%zz;x"},
		{"/github//x/./y", "github https://api.github.com//x/./y"},
		{"/v2/things?", "v2 https://Example.org/base/v2/things?"},
		{"/v2", "v2 https://Example.org/base/v2"},
		{"http://127.0.0.1:8090/github/x", "github https://api.github.com/x"},
		{"https://api.github.com/x", "github https://api.github.com/x"},
		{"https://API.github.com.:443/x", "github https://api.github.com/x"},
		{"http://api.github.com/x", "github https://api.github.com/x"},
		{"http://api.github.com", "github https://api.github.com"},
		{"https://user:secret@api.github.com/x", "github https://api.github.com/x"},
		{"https://example.org/base/v2/x", "v2 https://Example.org/base/v2/x"},
		{"https://example.org/base/v20", "v2x https://example.org:443/base/v20"},
		{"http://plain.test:8000/x", "plain http://plain.test:8000/x"},
		{"/", "404 unknown-api"},
		{"/Github/x", "404 unknown-api"},
		{"/git%68ub/x", "404 unknown-api"},
		{"*", "400 bad-request"},
		{"/github/../v2/x", "400 bad-request"},
		{"/v2/%2e%2e/x", "400 bad-request"},
		{"/v2/a%2f..%2fx", "400 bad-request"},
		{"/v2/..;a=b/x", "400 bad-request"},
		{"/v2/a%5c..%5cx", "400 bad-request"},
		{"/v2/..a/b..;/...", "v2 https://Example.org/base/v2/..a/b..;/..."},
		{"http://api.github.com:8080/x", "403 not-listed"},
		{"https://api.github.com:80/x", "403 not-listed"},
		{"https://plain.test:8000/x", "403 not-listed"},
		{"https://example.org/bas", "403 not-listed"},
		{"https://api.github.com.evil.test/", "403 not-listed"},
		{"https://evil.test/github/x", "403 not-listed"},
		{"ftp://api.github.com/x", "403 not-listed"},
		{"http://169.254.169.254/latest/meta-data", "403 not-listed"},
	} {
		u, err := url.ParseRequestURI(c.in)
		if err != nil {
			t.Fatal(err)
		}
		a, to, _, no := find(p.apis, u, "127.0.0.1:8090")
		got := ""
		if no != nil {
			got = strings.Join([]string{map[int]string{400: "400", 403: "403", 404: "404"}[no.status], no.reason}, " ")
		} else {
			got = a.name + " " + to.String()
		}
		if got != c.want {
			t.Errorf("find(%s) = %s, want %s", c.in, got, c.want)
		}
	}
}

// Whatever the URL, a request goes to the host of an API and below its path.
func FuzzFind(f *testing.F) {
	p := proxyOf(f, someAPIs)
	for _, text := range []string{"/v2/x", "/v2/..;/x", "https://example.org/base/v2%2f..%2f..", "/github/%00", "//github/x", "/v2/\\..\\x", "http:///x", "/v2x/%5c..%5c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(text)
		if err != nil {
			return
		}
		a, to, _, no := find(p.apis, u, "127.0.0.1:8090")
		if (a == nil) == (no == nil) {
			t.Fatalf("find(%q) = %v, %v", text, a, no)
		}
		if a == nil {
			return
		}
		again, err := url.Parse(to.String())
		if err != nil || again.Host != a.base.Host || again.Scheme != a.base.Scheme || climbs(again.Path) || !strings.HasPrefix(again.EscapedPath(), a.base.EscapedPath()) {
			t.Errorf("find(%q) = %s, which is outside of %s (%v)", text, to, a.base, err)
		}
	})
}

// An address that a URL names is permitted, and no other private one.
func TestPermits(t *testing.T) {
	for _, c := range []struct {
		api, address string
		want         bool
	}{
		{"http://10.0.0.1:8000", "10.0.0.1", true},
		{"http://10.0.0.1:8000", "10.0.0.2", false},
		{"http://[::1]:8000", "::1", true},
		{"http://localhost", "127.0.0.1", true},
		{"http://localhost", "::1", true},
		{"http://localhost", "10.0.0.1", false},
		{"http://localhost.evil.test", "127.0.0.1", false},
		{"https://api.github.com", "127.0.0.1", false},
		{"https://api.github.com", "140.82.121.6", true},
	} {
		a := proxyOf(t, map[string]string{"a": c.api}).apis[0]
		if got := a.permits(netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("%s permits %s = %t, want %t", c.api, c.address, got, c.want)
		}
		if a.Private = true; !a.permits(netip.MustParseAddr(c.address)) {
			t.Errorf("%s with private permits not %s", c.api, c.address)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		apis map[string]API
		want string
	}{
		{nil, "apis: 0 of them: must be 1 to 100"},
		{map[string]API{"a b": {URL: "http://h"}}, `apis."a b": a name is up to 100 letters, digits and . _ -, as in github`},
		{map[string]API{"..": {URL: "http://h"}}, "apis...: a name is up to"},
		{map[string]API{"throttle": {URL: "http://h"}}, "apis.throttle: is the path of the page; write another name"},
		{map[string]API{"a": {URL: "h"}}, "apis.a.url: h: is not a URL; write https://HOST"},
		{map[string]API{"a": {URL: "http://h?x"}}, "apis.a.url: (not shown): must have no user, no query and no #"},
		{map[string]API{"a": {URL: "http://u:p@h"}}, "apis.a.url: (not shown): must have no user, no query and no #"},
		{map[string]API{"a": {URL: "http://h:0"}}, "apis.a.url: http://h:0: the port must be a number from 1 to 65535"},
		{map[string]API{"a": {URL: "http://h/x/../y"}}, "apis.a.url: http://h/x/../y: must have no .. in its path"},
		{map[string]API{"a": {URL: "http://h"}, "b": {URL: "http://H:80/"}}, "apis.b.url: is that of a too; a request by URL could mean either"},
		{map[string]API{"a": {URL: "http://h", Dialect: "gitub"}}, "apis.a.dialect: gitub: is not known; did you mean github?"},
		{map[string]API{"a": {URL: "http://h", Account: "X Y"}}, `apis.a.account: "X Y": must be the name of a header field, as Authorization`},
		{map[string]API{"a": {URL: "http://h", Fleet: true}}, "apis.a.fleet: shares a rate that is known, in a store; write both"},
	} {
		if _, err := New(Config{APIs: c.apis}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("New(%v)\ngot  %v\nwant %s", c.apis, err, c.want)
		}
	}
}
