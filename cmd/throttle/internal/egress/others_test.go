package egress

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
)

// TestOpen: an open proxy passes on what is for other hosts as it is, and refuses what comes
// back to it; one that is not open refuses both. Events are those of APIs alone.
func TestOpen(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, "%s %s %q %q", r.Method, r.RequestURI, r.Header["Accept-Encoding"], r.Header["X-Forwarded-For"])
	}))
	defer other.Close()
	for _, open := range []bool{true, false} {
		events := 0
		e := serve(t, Config{APIs: map[string]API{"api": {URL: "http://api.example"}}, Open: open, OnEvent: func(throttle.Event) { events++ }})
		proxy, err := url.Parse(e.url)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Transport{Proxy: http.ProxyURL(proxy), DisableCompression: true}
		defer client.CloseIdleConnections()
		for _, loops := range []bool{false, true} {
			r, err := http.NewRequestWithContext(t.Context(), "PUT", other.URL+"/x?y=z", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Forwarded-For", "me")
			if loops {
				r.Header.Set(loopField, e.mark)
			}
			answer, err := client.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			a := e.read(answer)
			if want := `PUT /x?y=z [] ["me"]`; open && !loops && (a.StatusCode != 429 || a.body != want || a.mark() != "") {
				t.Errorf("%d %q, want 429 %q", a.StatusCode, a.body, want)
			}
			if (!open || loops) && (a.StatusCode != 403 || a.mark() != "not-listed") {
				t.Errorf("open %t, loops %t: %d %s, want 403", open, loops, a.StatusCode, a.body)
			}
		}
		if events > 0 {
			t.Errorf("%d events of no API", events)
		}
	}
}

// TestOpenUnreachable: another host that does not answer is 502.
func TestOpenUnreachable(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	e := serve(t, Config{APIs: map[string]API{"api": {URL: "http://api.example"}}, Open: true})
	proxy, err := url.Parse(e.url)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	answer, err := client.Get(gone.URL)
	if err != nil {
		t.Fatal(err)
	}
	if a := e.read(answer); a.StatusCode != 502 || a.mark() != "unreachable" || !strings.Contains(a.body, "connection refused") {
		t.Errorf("%d %s, want 502 unreachable", a.StatusCode, a.body)
	}
}

// TestAuthorityInMemory: an authority that is in no file is used, and must permit the hosts.
func TestAuthorityInMemory(t *testing.T) {
	key, err := intercept.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c, err := intercept.NewCertificate(key, []string{"api.example"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a := new(intercept.Authority)
	if err := a.Use(c, key); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"api.example": "", "other.example": "does not permit other.example"} {
		p, err := New(Config{APIs: map[string]API{"api": {URL: "https://" + host}}, Intercept: &Intercept{Authority: a}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Load(time.Now()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", host, err, want)
		}
	}
}
