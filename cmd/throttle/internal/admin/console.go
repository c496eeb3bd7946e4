package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/page"
)

// console mounts the page of operators.
func (s *server) console(mux *http.ServeMux) {
	open := func(h http.HandlerFunc) http.Handler { return s.guarded(anyone, h) }
	mux.Handle("GET /assets/", open(s.page.Assets))
	mux.Handle("GET /signin", open(func(w http.ResponseWriter, r *http.Request) {
		if s.access.of(r).role > anyone {
			http.Redirect(w, r, pathOnly(r.FormValue("to")), http.StatusSeeOther)
			return
		}
		s.page.SignIn(w, pathOnly(r.FormValue("to")), false)
	}))
	mux.Handle("POST /signin", open(s.signIn))
	mux.Handle("POST /signout", s.guarded(reader, http.HandlerFunc(s.signOut)))
	for _, path := range page.Paths() {
		mux.Handle("GET "+path, s.guarded(reader, http.HandlerFunc(s.page.View)))
	}
	for _, path := range []string{"/try", "/whatif"} { // these change nothing
		mux.Handle("POST "+path, s.guarded(reader, http.HandlerFunc(s.page.View)))
	}
	mux.Handle("POST /do/", s.guarded(writer, http.HandlerFunc(s.page.Do)))
}

// inside calls an endpoint of the API for the caller of ctx, as if it had sent the
// request, and reads the answer into v.
func (s *server) inside(ctx context.Context, method, path string, body, v any) error {
	who := from(ctx)
	r, err := requestFor(ctx, method, path, body)
	if err != nil {
		return err
	}
	for _, e := range s.endpoints() {
		pattern, named := strings.CutSuffix(e.pattern, "{name}")
		name, ok := strings.CutPrefix(method+" "+r.URL.Path, pattern)
		if !ok || named != (name != "") {
			continue
		}
		r.SetPathValue("name", name)
		if who.role < e.needs {
			return failf(http.StatusForbidden, "%s may read, but not write", who.name)
		}
		a := &answered{header: http.Header{}}
		if err := e.do(a, r); err != nil {
			return err
		}
		return json.Unmarshal(a.body.Bytes(), v)
	}
	return failf(http.StatusNotFound, "there is no %s %s", method, r.URL.Path)
}

func requestFor(ctx context.Context, method, path string, body any) (*http.Request, error) {
	if body == nil {
		return http.NewRequestWithContext(ctx, method, path, http.NoBody)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(text))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// viewer is the caller of ctx, for the page.
func (s *server) viewer(ctx context.Context) page.Viewer {
	who := from(ctx)
	return page.Viewer{Name: who.name, Write: who.role >= writer, SignedIn: len(s.access.tokens) > 0}
}

// denied answers a request that may not be: to people with the form that signs in, or
// with a page.
func (s *server) denied(w http.ResponseWriter, r *http.Request, err error) {
	if !page.Owns(r.URL.Path) {
		if statusOf(err) == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="throttle admin"`)
		}
		refuse(w, err)
		return
	}
	if statusOf(err) != http.StatusUnauthorized {
		s.page.Problem(w, r, statusOf(err), err.Error())
		return
	}
	to := "/signin"
	if r.Method == http.MethodGet && r.URL.Path != "/signout" {
		to += "?" + url.Values{"to": {r.URL.RequestURI()}}.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// statusOf is the status of an error of an endpoint.
func statusOf(err error) int {
	if p := (*problem)(nil); errors.As(err, &p) {
		return p.Status
	}
	return http.StatusInternalServerError
}

// answered keeps what an endpoint answers.
type answered struct {
	header http.Header
	body   bytes.Buffer
}

// Header returns the header.
func (a *answered) Header() http.Header { return a.header }

// Write keeps p.
func (a *answered) Write(p []byte) (int, error) { return a.body.Write(p) }

// WriteHeader does nothing: the status of a problem comes as an error.
func (a *answered) WriteHeader(int) {}
