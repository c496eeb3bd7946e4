//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
)

// flaw is a mistake made in the page on its way to the browser.
type flaw struct {
	name, in    string // the view
	path        string // of what is changed
	what, wrong string
	rule        string // of axe, that it breaks
	found       atomic.Bool
}

// spoiled serves the page of an instance with the flaw that is set, nil for none.
func spoiled(t *testing.T, g *gatewayProcess, is *atomic.Pointer[flaw]) string {
	t.Helper()
	to := &url.URL{Scheme: "http", Host: g.admin}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { // the Host stays, by which the page knows its origin
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
			r.Out.Header.Del("Accept-Encoding")
			r.Out.Header.Del("If-Modified-Since")
		},
		ModifyResponse: func(a *http.Response) error {
			f := is.Load()
			if f == nil || a.Request.URL.Path != f.path {
				return nil
			}
			text, err := io.ReadAll(a.Body)
			if err != nil {
				return err
			}
			if bytes.Contains(text, []byte(f.what)) { // what the script asks for lacks the frame
				f.found.Store(true)
			}
			text = bytes.ReplaceAll(text, []byte(f.what), []byte(f.wrong))
			a.Body = io.NopCloser(bytes.NewReader(text))
			a.ContentLength = int64(len(text))
			a.Header.Set("Content-Length", strconv.Itoa(len(text)))
			return nil
		},
	}
	s := httptest.NewServer(p)
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return s.URL
}

// TestPageAccessibilityBites: the check of accessibility finds nothing in the page as
// it is, and finds each mistake that is made in it.
func TestPageAccessibilityBites(t *testing.T) {
	t.Parallel()
	browsertest.Find(t)
	b := browsertest.Open(t)
	axe := b.Axe()
	if axe == "" {
		t.Skip("NO AXE: that the check of accessibility finds mistakes is NOT tested")
	}
	g := startAlone(t)
	var is atomic.Pointer[flaw]
	base := spoiled(t, g, &is)
	signIn(b, base, exampleToken, "/")
	b.Scheme("light")
	g.passes(2, "acme")
	for _, f := range []*flaw{
		{name: "a field without its label", in: "/try", path: "/try", what: `<label>Client <input name="client"`, wrong: `<label></label><input name="client"`, rule: "label"},
		{name: "a list without its label", in: "/try", path: "/try", what: `<label>Method <select`, wrong: `<label></label><select`, rule: "select-name"},
		{name: "a button without text", in: "/try", path: "/try", what: `<button>Try</button>`, wrong: `<button></button>`, rule: "button-name"},
		{name: "a role that there is not", in: "/", path: "/", what: `role="status"`, wrong: `role="statos"`, rule: "aria-roles"},
		{name: "an attribute that there is not", in: "/", path: "/", what: `aria-labelledby="reasons"`, wrong: `aria-labeledby="reasons"`, rule: "aria-valid-attr"},
		{name: "a chart without description", in: "/", path: "/", what: `role="img" aria-label="Decisions`, wrong: `role="img" title="" data-was="Decisions`, rule: "svg-img-alt"},
		{name: "a page without language", in: "/", path: "/", what: `<html lang="en">`, wrong: `<html>`, rule: "html-has-lang"},
		{name: "text of low contrast", in: "/", path: "/assets/page.css", what: `--muted: #57606b`, wrong: `--muted: #b7bcc2`, rule: "color-contrast"},
	} {
		for _, with := range []*flaw{nil, f} {
			is.Store(with)
			b.Go(base + f.in)
			b.Await(`document.documentElement.dataset.ready !== undefined`)
			found := b.Violations(axe)
			switch broken := slices.ContainsFunc(found, func(v browsertest.Violation) bool { return v.Rule == f.rule }); {
			case with == nil && len(found) > 0:
				t.Errorf("%s as it is: %v", f.in, found)
			case with != nil && !f.found.Load():
				t.Errorf("%s: %s has no %s", f.name, f.path, f.what)
			case with != nil && !broken:
				t.Errorf("%s: %s is not found, but %v", f.name, f.rule, found)
			}
		}
	}
	b.Clean(base + "/")
	if err := g.end(); err != nil {
		t.Errorf("it ended by %v: %s", err, g.log)
	}
}
