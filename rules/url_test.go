package rules_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// TestFromURL: a real server over loopback that answers in all ways.
func TestFromURL(t *testing.T) {
	var serve http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r) }))
	defer server.Close()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	tagged := func(tag, version string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", tag)
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Write(versionOf(version))
		}
	}
	s := rules.Source{Fetch: rules.FromURL(server.Client(), server.URL+"/rules.json")}
	for i, x := range []struct {
		serve         http.HandlerFunc
		version, want string
	}{
		{status(http.StatusNotModified), "", "304"}, // to a question without a tag
		{tagged(`"a"`, "1"), "1", ""},
		{tagged(`"a"`, "changed without a new tag"), "1", ""}, // so it did answer 304
		{status(500), "1", "500 Internal Server Error"},
		{status(204), "1", "204 No Content"},
		{status(200), "1", "not JSON"},
		{tagged(`W/"b"`, "2"), "2", ""},
		{tagged(`W/"b"`, "3"), "2", ""},
		{func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, rules.MaxSize+1)) }, "2", "longer than 1048576 bytes"},
		{func(w http.ResponseWriter, _ *http.Request) {
			w.Write(append(versionOf("4"), strings.Repeat(" ", rules.MaxSize-len(versionOf("4")))...))
		}, "4", ""},
		{func(w http.ResponseWriter, _ *http.Request) { // the connection breaks
			w.Header().Set("Content-Length", "1000")
			w.Write(versionOf("5"))
		}, "4", "unexpected EOF"},
		{func(w http.ResponseWriter, _ *http.Request) {
			w.Write(versionOf("5")[:30])
		}, "4", "1:31: not JSON"},
		{func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "4", "redirects"},
		{func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/elsewhere" {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			w.Write(versionOf("6"))
		}, "6", ""},
	} {
		serve = x.serve
		err := s.Refresh(t.Context())
		if got := s.Live.Load().Version(); got != x.version || fmt.Sprint(err) != fmt.Sprint(nil) && (x.want == "" || !strings.Contains(err.Error(), x.want)) || err == nil && x.want != "" {
			t.Errorf("answer %d: version %q, %v; want %q, %q", i, got, err, x.version, x.want)
		}
	}
	server.Close()
	if err := s.Refresh(t.Context()); err == nil || s.Live.Load().Version() != "6" || s.Status().Failures != 9 {
		t.Errorf("Refresh with the server gone = %v, status %+v; want version 6 and 9 failures", err, s.Status())
	}
}

// TestFromURLOfAnotherFormat: a server that has the rules in another format than JSON, and
// answers 406 to callers that do not accept it, is asked for any.
func TestFromURLOfAnotherFormat(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Get("Accept"); !strings.Contains(accept, "yaml") && !strings.Contains(accept, "*/*") {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		w.Write([]byte("rules: []\n"))
	}))
	defer server.Close()
	if data, _, err := rules.FromURL(nil, server.URL)(t.Context(), ""); err != nil || string(data) != "rules: []\n" {
		t.Errorf("%q, %v; want the rules in YAML", data, err)
	}
}

// TestSlowBody: a body that never ends costs no more than the time given.
func TestSlowBody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(versionOf("1")[:20])
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done() // until the client has gone
	}))
	defer server.Close()
	s := rules.Source{Fetch: rules.FromURL(nil, server.URL)}
	if err := s.Refresh(ctx); !errors.Is(err, context.Canceled) || s.Live.Load() != nil {
		t.Errorf("Refresh of a slow body = %v, want it to end with its context", err)
	}
}

// TestFromURLHidesSecrets: no error shows the password or the query of the URL.
func TestFromURLHidesSecrets(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, at := range []string{server.URL, gone.URL, "http://host:port", "ftp://host"} {
		url := strings.Replace(at, "://", "://me:wOrd@", 1) + "/rules.json?token=sEcret#pArt"
		s := rules.Source{Fetch: rules.FromURL(nil, url)}
		err := s.Refresh(t.Context())
		if bad := rules.FromURL(nil, strings.Replace(at, "://", "://me:wOrd/x@", 1)); err != nil { // the / is not escaped
			_, _, wrong := bad(t.Context(), "")
			err = fmt.Errorf("%w; %v", err, wrong)
		}
		if text := fmt.Sprint(err); err == nil || strings.Contains(text, "wOrd") || strings.Contains(text, "sEcret") || strings.Contains(text, "pArt") {
			t.Errorf("%s: %v, want an error without what is secret", url, err)
		}
	}
	server.Close()
	_, _, err := rules.FromURL(nil, "http://127.0.0.1:1/wOrd@host/rules.json")(t.Context(), "")
	if err == nil || strings.Contains(err.Error(), "wOrd") {
		t.Errorf("%v, want an error without what may be a password", err)
	}
}
