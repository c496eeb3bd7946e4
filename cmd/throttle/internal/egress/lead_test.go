package egress

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// TestLead: what an answer refers to is followed by this proxy if the API serves it, and never at
// another API of this proxy.
func TestLead(t *testing.T) {
	p := proxyOf(t, map[string]string{"api": "https://api.test/base", "other": "https://other.test"})
	to, err := url.Parse("https://api.test/base/a/b?c")
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{api: p.apis[0], to: to, own: "http://localhost:8090/api"}
	for in, want := range map[string]string{
		"https://api.test/base/x?y=%zz#z": "http://localhost:8090/api/x?y=%zz#z",
		"https://API.test:443/base/a%2Fb": "http://localhost:8090/api/a%2Fb",
		"http://api.test/base/x":          "http://localhost:8090/api/x",
		"https://api.test/base":           "http://localhost:8090/api",
		"https://api.test/base?":          "http://localhost:8090/api?",
		"//api.test/base/x":               "http://localhost:8090/api/x",
		"/base/x?y":                       "http://localhost:8090/api/x?y",
		"x?y":                             "x?y",
		"?y":                              "?y",
		"":                                "",
		"../x":                            "http://localhost:8090/api/x",
		"../../other/x":                   "https://api.test/other/x",
		"/other/x":                        "https://api.test/other/x",
		"/basement":                       "https://api.test/basement",
		"/base/../other/x":                "https://api.test/other/x",
		"//elsewhere.test/x":              "https://elsewhere.test/x",
		"https://api.test.evil.test/":     "https://api.test.evil.test/",
		"https://other.test/x y":          "https://other.test/x y",
		"mailto:me@api.test":              "mailto:me@api.test",
		"/base/%":                         "/base/%",
	} {
		if got := x.lead(in); got != want {
			t.Errorf("lead(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestCookies: by path, a cookie of an API is sent to no other one.
func TestCookies(t *testing.T) {
	p := proxyOf(t, map[string]string{"api": "https://api.test/base"})
	for _, c := range []struct{ path, in, want string }{
		{"/base/x", "a=1; Path=/", "a=1; Path=/api"},
		{"/base/x", "a=1; HttpOnly; path = /base ; Domain=api.test; Secure", "a=1; HttpOnly; Secure; Path=/api"},
		{"/base/x", `a="1=2"; Path=/base/v1/; Max-Age=5`, `a="1=2"; Max-Age=5; Path=/api/v1`},
		{"/base/x", "a=1; Path=/basement", "a=1; Path=/api/basement"},
		{"/base/x/y", "a=1", "a=1; Path=/api/x"},
		{"/base/x", "a=1; Path=x", "a=1; Path=/api"},
		{"/base", "a=1", "a=1; Path=/api"},
		{"", "a=1", "a=1; Path=/api"},
	} {
		x := &exchange{api: p.apis[0], to: &url.URL{Scheme: "https", Host: "api.test", Path: c.path}}
		if got := x.cookie(c.in); got != c.want {
			t.Errorf("after %s, cookie(%q) = %q, want %q", c.path, c.in, got, c.want)
		}
	}
}

// TestLeadsBack: the same, as a caller sees it. By the URL of the API nothing is changed, and an
// answer without a type has none.
func TestLeadsBack(t *testing.T) {
	e := before(t, API{}, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Content-Type"] = nil
		h.Set("Location", "/next")
		h.Set("Link", `</2>; rel="next", </3?x>; rel="last"`)
		h["Set-Cookie"] = []string{"a=1; Path=/", "b=2; Path=/"}
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("<html>"))
	})
	check := func(a seen, own, name string) {
		t.Helper()
		for field, want := range map[string][]string{
			"Location": {own + "/next"}, "Link": {"<" + own + `/2>; rel="next", <` + own + `/3?x>; rel="last"`},
			"Set-Cookie": {"a=1; Path=/" + name, "b=2; Path=/" + name}, "Content-Type": nil,
		} {
			if got := a.Header[field]; a.StatusCode != 201 || !slices.Equal(got, want) {
				t.Errorf("%d, %s: %q, want %q", a.StatusCode, field, got, want)
			}
		}
	}
	check(e.send("GET", "/api/x", nil), e.url+"/api", "api")
	proxy, err := url.Parse(e.url)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return proxy, nil }}
	defer c.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "GET", e.apis[0].base.String()+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	check(e.read(a), "", "")
}
