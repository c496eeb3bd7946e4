package egress

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// lineOf answers with the first line of a request, and what it may pass.
func lineOf(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+r.Header.Get(maxForwards)))
}

// TestServerAsAWhole: OPTIONS of a URL without a path is asked of the server as a whole, also
// inside CONNECT; OPTIONS of no URL is for this proxy, and the bound of Max-Forwards holds.
func TestServerAsAWhole(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(lineOf))
	s.Config.DisableGeneralOptionsHandler = true
	s.Start()
	defer s.Close()
	e := serve(t, Config{APIs: map[string]API{"api": {URL: s.URL}, "below": {URL: "http://below.test:1/v1"}}})
	for in, want := range map[string]string{
		"OPTIONS " + s.URL + " HTTP/1.1":                            "200 OPTIONS *",
		"OPTIONS " + s.URL + "/ HTTP/1.1":                           "200 OPTIONS /",
		"OPTIONS " + s.URL + "?x HTTP/1.1":                          "200 OPTIONS /?x",
		"GET " + s.URL + " HTTP/1.1":                                "200 GET /",
		"OPTIONS /api HTTP/1.1":                                     "200 OPTIONS /",
		"OPTIONS * HTTP/1.1":                                        "200 final",
		"GET * HTTP/1.1":                                            "400 bad-request",
		"OPTIONS http://below.test:1 HTTP/1.1":                      "403 not-listed",
		"OPTIONS /api/x HTTP/1.1\r\nMax-Forwards: 0":                "200 final",
		"TRACE /api/x HTTP/1.1\r\nMax-Forwards: 0":                  "405 final",
		"GET /api/x HTTP/1.1\r\nMax-Forwards: 0":                    "200 GET /x 0",
		"OPTIONS /api/x HTTP/1.1\r\nMax-Forwards: 2":                "200 OPTIONS /x 1",
		"TRACE /api/x HTTP/1.1\r\nMax-Forwards: 1":                  "200 TRACE /x 0",
		"TRACE /api/x HTTP/1.1\r\nMax-Forwards: many":               "200 TRACE /x many",
		"OPTIONS " + s.URL + " HTTP/1.1\r\nMax-Forwards: 1":         "200 OPTIONS * 0",
		"OPTIONS " + s.URL + "/api/x HTTP/1.0\r\nMax-Forwards: 999": "200 OPTIONS /api/x 998",
	} {
		a := e.exchange(in + "\r\nHost: localhost\r\n\r\n")
		got := fmt.Sprint(a.StatusCode, " ", a.body)
		if a.mark() != "" {
			got = fmt.Sprint(a.StatusCode, " ", a.mark())
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	secure, api := intercepting(t, Config{Intercept: new(Intercept)}, API{}, http.HandlerFunc(lineOf))
	for method, want := range map[string]string{"OPTIONS": "200 OPTIONS *", "GET": "400 throttle egress: the path must begin with /"} {
		for _, http2 := range []bool{false, true} {
			r, _ := http.NewRequestWithContext(t.Context(), method, api.URL, nil)
			r.URL.Path = "*"
			a, err := secure.client(http2).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(a.StatusCode, " ", strings.TrimSpace(secure.read(a).body)); got != want {
				t.Errorf("%s * inside CONNECT, HTTP/2 %t: %s, want %s", method, http2, got, want)
			}
		}
	}
}

// TestAuthority: a caller of HTTP/2 names the API by :authority alone, as there is no absolute form.
func TestAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(lineOf))
	s.Config.DisableGeneralOptionsHandler = true
	s.Start()
	defer s.Close()
	e := serve(t, Config{APIs: map[string]API{"api": {URL: s.URL + "/v1"}, "all": {URL: s.URL}}})
	host := strings.TrimPrefix(s.URL, "http://")
	for _, c := range []struct{ method, path, host, want string }{
		{"GET", "/x", host, "200 GET /x"},
		{"GET", "/", host, "200 GET /"},
		{"GET", "/throttle/", host, "200 GET /throttle/"},
		{"OPTIONS", "*", host, "200 OPTIONS *"},
		{"OPTIONS", "*", "localhost", "200 throttle egress: this is the proxy"},
		{"GET", "/api/x", "localhost", "200 GET /v1/x"},
		{"GET", "/api/x", "other.test", "403 throttle egress: the field Host must be localhost or an address, not other.test"},
	} {
		u, _ := url.Parse(e.url)
		u.Path = c.path
		a, err := plainHTTP2(t).Do((&http.Request{Method: c.method, URL: u, Host: c.host}).WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(a.StatusCode, " ", strings.TrimSpace(e.read(a).body)); got != c.want {
			t.Errorf("%s %s of %s: %s, want %s", c.method, c.path, c.host, got, c.want)
		}
	}
}
