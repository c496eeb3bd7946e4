// Package throttlepage is a page for the callers of limited services: it shows
// what each rate limiter of a program has learnt and from where, what waits and
// for how long, what is in flight, and what the server said last, each in a
// sentence.
//
//	var api throttle.Throttle
//	transport := new(throttlehttp.Transport)
//
//	mux.Handle("/debug/throttle/", http.StripPrefix("/debug/throttle", &throttlepage.Page{
//		Throttles: map[string]*throttle.Throttle{"api": &api},
//		Groups:    map[string]*throttle.Group{"web": transport.Group()},
//	}))
//
// It only reads. Mount it behind the authentication of the program, or on
// loopback: it asks for no password, and names of hosts and routes are on it.
//
// The server makes the HTML, so it is readable without a script; a small script
// keeps it live. Style and script are part of the page, and nothing is asked of
// anywhere else. Without a reader it costs nothing: there is no goroutine, no
// timer and no history.
package throttlepage

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/throttle-go/throttle"
)

// Page is the http.Handler of the page. It has three paths, relative to where it
// is mounted: "/" is HTML, "/state.json" the same content as JSON, "/events" a
// stream of server-sent events that keeps an open page live.
//
// The zero value is ready, and has nothing to show. A Page is safe for concurrent
// use; it must not be copied, nor its fields or their maps changed, after first
// use.
type Page struct {
	// Throttles are shown by these names, each with its queues and scopes. If nil,
	// there are none; a nil Throttle is left out.
	Throttles map[string]*throttle.Throttle
	// Groups are shown by these names, a row for each member and scope: those of
	// throttlehttp.Transport.Group, throttlegrpc.Client.Group,
	// throttleaws.Gates.Group. If nil, there are none; a nil Group is left out.
	Groups map[string]*throttle.Group
	// Counters are shown above the Throttle or the Group of the same name, which
	// has its OnEvent. If nil, there are none; one of another name is left out.
	Counters map[string]*throttle.Counter
	// ShowKeys shows keys (throttle.CallOptions.Key) as they are. If false, a key
	// is shown by a digest: the first eight digits of its SHA-256.
	ShowKeys bool
	// Back is the URL of the page that leads here, which the page links to. If empty, there
	// is none.
	Back string
	// MaxRows bounds the rows of each Throttle and each Group. If zero or below,
	// 100. Beyond it, those that most calls wait for are shown, then those with
	// most in flight, and the others are counted; one member of a Group has at
	// most a tenth of the rows, at least two.
	MaxRows int
	// MaxStreams bounds the streams that are open at a time, one for each tab that
	// is looked at. If zero or below, 16. Beyond it, a stream is refused with 503,
	// and the page asks again after ten seconds; it is as readable without.
	MaxStreams int

	streams atomic.Int64

	mu   sync.Mutex // guards last
	last *look
}

var _ http.Handler = (*Page)(nil)

// ServeHTTP serves the page, below any prefix that http.StripPrefix removes.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", security)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this page only reads: send GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	switch strings.TrimPrefix(r.URL.Path, "/") {
	case "":
		if to := folder(r); to != "" {
			h.Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		p.serveHTML(w)
	case "state.json":
		p.serveJSON(w)
	case "events":
		p.serveEvents(w, r)
	default:
		http.Error(w, "not found: the page has /, /state.json and /events below where it is mounted; mount it with http.StripPrefix", http.StatusNotFound)
	}
}

// folder is where the page is to be asked for if the URL of r, as the browser
// knows it, does not end in a slash, so that the relative URLs in it lead here;
// empty if it does. It is relative itself, as a prefix may have been removed.
func folder(r *http.Request) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil || u.Path == "" || strings.HasSuffix(u.Path, "/") {
		return ""
	}
	return "./" + path.Base(u.EscapedPath()) + "/"
}

func (p *Page) maxRows() int {
	if p.MaxRows <= 0 {
		return 100
	}
	return p.MaxRows
}

func (p *Page) maxStreams() int64 {
	if p.MaxStreams <= 0 {
		return 16
	}
	return int64(p.MaxStreams)
}
