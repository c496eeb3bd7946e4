// Package page is the page of operators: HTML made by the server from the API of
// the admin role, readable without scripts, and a small script that keeps it live.
// It asks nothing of anywhere else.
package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
)

//go:embed assets templates
var files embed.FS

// views are parsed once: the frame, and in it one view each.
var views = map[string]*template.Template{}

func init() {
	frame := template.Must(template.New("frame.html").Funcs(functions).ParseFS(files, "templates/frame.html", "templates/parts.html"))
	for _, v := range nav {
		views[v.Name] = template.Must(template.Must(frame.Clone()).ParseFS(files, "templates/"+v.Name+".html"))
	}
	for _, name := range []string{"signin", "problem"} {
		views[name] = template.Must(template.Must(frame.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
}

// A place is a view in the navigation.
type place struct {
	Name, Path, Title string
	Drawn             bool // it has charts of ticks
}

var nav = []place{
	{"overview", "/", "Overview", true},
	{"rules", "/rules", "Rules", true},
	{"who", "/who", "Who", false},
	{"quotas", "/quotas", "Quotas", false},
	{"try", "/try", "Try it", false},
	{"whatif", "/whatif", "What if", false},
	{"versions", "/versions", "Versions", false},
	{"events", "/events", "Events", false},
}

// callers is the page of the callers of limited APIs, which is no view of this page.
var callers = place{"callers", "/callers/", "Callers", false}

// links are the navigation.
func (p *Page) links() []place {
	all := slices.Clone(nav)
	if !p.Quotas {
		all = slices.DeleteFunc(all, func(v place) bool { return v.Name == "quotas" })
	}
	if p.Callers {
		all = append(all, callers)
	}
	return all
}

// Paths are the patterns of the views, for a ServeMux; that of the root ends there.
func Paths() (all []string) {
	for _, v := range nav {
		all = append(all, strings.Replace(v.Path+"$", "/$", "/{$}", 1))
	}
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], "$")
	}
	return all
}

// Owns reports whether a path belongs to the page, so that problems with it are
// HTML.
func Owns(path string) bool {
	return placeOf(path) != nil || strings.HasPrefix(path, "/do/") || path == "/signin" || path == "/signout"
}

func placeOf(path string) *place {
	for i := range nav {
		if nav[i].Path == path {
			return &nav[i]
		}
	}
	return nil
}

// Viewer is the reader of a page.
type Viewer struct {
	Name string
	// Write allows changes.
	Write bool
	// SignedIn reports that there is a session to end.
	SignedIn bool
}

// Page serves the page. It is safe for concurrent use.
type Page struct {
	// Call calls an endpoint of the API for the caller of a context: it sends body
	// as JSON, nil for none, and reads the answer into v.
	Call func(ctx context.Context, method, path string, body, v any) error
	// Ticks returns the latest n ticks, or as many as there are, in their order.
	Ticks func(n int) []ticks.Tick
	// Viewer is the caller of a context.
	Viewer func(context.Context) Viewer
	// Status is the HTTP status of an error of Call.
	Status func(error) int
	// Quotas shows a link to the quotas of Envoy. If false, there is none.
	Quotas bool
	// Callers shows a link to the callers' page. If false, there is none.
	Callers bool
}

// frame is what all views have.
type frame struct {
	Viewer
	View, Title, Path string
	Nav               []place
	Now               time.Time
	Status            status
	Ticks             []ticks.Tick // the last one only, where none are drawn
	Parts             bool         // for the script, which has charts and rates: main alone, without them
	Last              ticks.Tick   // of Ticks
	Alert, Done       string
	Failed            string     // the form that Alert is about
	Form              url.Values // as it was sent, with the query
	posted            url.Values // of Form, without the query
	Body              any
}

// Drawn are the ticks of which charts are made.
func (f *frame) Drawn() []ticks.Tick {
	if f.Parts {
		return nil
	}
	return f.Ticks
}

// PerSecond are the decisions of the last second.
func (f *frame) PerSecond() (now struct {
	Passed, Refused float64
	Share           int // refused, in percent
},
) {
	now.Passed, now.Refused, _ = f.Last.PerSecond("")
	if all := f.Last.Passed + f.Last.Refused; all > 0 {
		now.Share = int(math.Round(100 * float64(f.Last.Refused) / float64(all)))
	}
	return now
}

// View serves a view, and the trials that are sent to it.
func (p *Page) View(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.Problem(w, r, http.StatusBadRequest, "the form cannot be read: "+err.Error())
		return
	}
	p.show(w, r, placeOf(r.URL.Path), nil)
}

// show renders a view, with what went wrong with a form sent from it.
func (p *Page) show(w http.ResponseWriter, r *http.Request, v *place, wrong error) {
	f := &frame{Viewer: p.Viewer(r.Context()), View: v.Name, Title: v.Title, Path: again(r, v), Nav: p.links(), Now: time.Now(), Form: r.Form, posted: r.PostForm, Parts: r.Header.Get("Throttle-Page") == "parts"}
	err := p.Call(r.Context(), "GET", "/api/v1/status", nil, &f.Status)
	n := 1
	if v.Drawn {
		n = ticks.Kept
	}
	if f.Ticks = p.Ticks(n); len(f.Ticks) > 0 {
		f.Last = f.Ticks[len(f.Ticks)-1]
	}
	if err == nil {
		f.Body, err = bodies[v.Name](p, r, f)
	}
	status := http.StatusOK
	if wrong != nil {
		err, f.Failed = wrong, strings.TrimPrefix(r.URL.Path, "/do/")
	}
	if err != nil {
		f.Alert, status = err.Error(), p.statusOf(err)
	}
	f.Done = done[r.FormValue("done")]
	render(w, v.Name, status, f)
}

// mistake is what is wrong with what was typed, where the page itself reads it.
type mistake string

// Error says what would be right.
func (m mistake) Error() string { return string(m) }

// statusOf is the HTTP status of an error of a view.
func (p *Page) statusOf(err error) int {
	if m := mistake(""); errors.As(err, &m) {
		return http.StatusBadRequest
	}
	return p.Status(err)
}

// again is the path and the query that show a view as r does, also where r is a form
// that was sent from it.
func again(r *http.Request, v *place) string {
	query := r.URL.Query()
	if r.URL.Path != v.Path {
		query = after("", v, r.PostForm)
	}
	query.Del("done")
	if len(query) == 0 {
		return v.Path
	}
	return v.Path + "?" + query.Encode()
}

// bodies make what views show besides the frame. One that fails shows what it has.
var bodies map[string]func(*Page, *http.Request, *frame) (any, error)

func init() { // as they refer to it
	bodies = map[string]func(*Page, *http.Request, *frame) (any, error){
		"overview": overview, "rules": rulesView, "who": who, "quotas": quotas, "try": try, "whatif": whatIf, "versions": versions, "events": events,
	}
}

// Problem shows what went wrong, where there is nothing else to show.
func (p *Page) Problem(w http.ResponseWriter, _ *http.Request, status int, text string) {
	render(w, "problem", status, &frame{View: "problem", Title: http.StatusText(status), Alert: text})
}

// SignIn shows the form that asks for a token.
func (p *Page) SignIn(w http.ResponseWriter, to string, failed bool) {
	f := &frame{View: "signin", Title: "Sign in", Path: to}
	if failed {
		f.Alert = "No token has this secret."
	}
	render(w, "signin", http.StatusOK, f)
}

// Assets serves the style and the script.
func (p *Page) Assets(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, files, strings.TrimPrefix(r.URL.Path, "/"))
}

func render(w http.ResponseWriter, name string, status int, f *frame) {
	var b bytes.Buffer
	whole := "frame.html"
	if f.Parts {
		whole = "main"
	}
	if err := views[name].ExecuteTemplate(&b, whole, f); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // an error means that the reader has gone
}

var errNoForm = errors.New("there is no such form")
