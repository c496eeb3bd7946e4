package throttlepage

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // style, script and templates
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"time"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var pages = template.Must(template.New("page").Parse(pageHTML))

// security is the Content-Security-Policy: the one style and the one script of the
// page, and requests to where it comes from.
var security = "default-src 'none'; style-src '" + hash(pageCSS) + "'; script-src '" + hash(pageJS) +
	"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// content is the HTML of what changes.
func content(l *look) string { return render("content", l) }

func render(name string, data any) string {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		panic("throttlepage: " + err.Error()) // of values of our own
	}
	return b.String()
}

func (p *Page) serveHTML(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(render("page", map[string]any{ // an error means that the reader has gone
		"Style": template.CSS(pageCSS), "Script": template.JS(pageJS), "Content": template.HTML(p.look().html), "Back": p.Back,
	})))
}

func (p *Page) serveJSON(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	_ = e.Encode(p.look()) // an error means that the reader has gone
}

const (
	// every is how often a stream looks.
	every = time.Second
	// lifetime ends a stream, which the browser then opens again: so the program's
	// authentication is asked again, and a server that shuts down waits no longer.
	lifetime = 30 * time.Second
	// sendWithin bounds one write to a stream.
	sendWithin = 10 * time.Second
)

// serveEvents streams the content, where there is room for another stream.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	if p.streams.Add(1) > p.maxStreams() {
		p.streams.Add(-1)
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many streams are open: reload the page instead", http.StatusServiceUnavailable)
		return
	}
	defer p.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	to := http.NewResponseController(w)
	if errors.Is(to.Flush(), http.ErrNotSupported) { // as below an http.TimeoutHandler
		http.Error(w, "no streams here, as the ResponseWriter cannot flush: reload the page instead", http.StatusNotImplemented)
		return
	}
	_ = to.SetReadDeadline(time.Time{}) // that of the request would end the stream
	p.stream(r, w, to)
}

// stream sends the content until the reader leaves, or for a lifetime.
func (p *Page) stream(r *http.Request, w http.ResponseWriter, to *http.ResponseController) {
	tick, end := time.NewTicker(every), time.NewTimer(lifetime)
	defer tick.Stop()
	defer end.Stop()
	for first := "retry: 500\n"; ; first = "" {
		text, _ := json.Marshal(p.look().html) // in one line
		if push(w, to, first+"data: "+string(text)+"\n\n") != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}

// push writes text at once.
func push(w http.ResponseWriter, to *http.ResponseController, text string) error {
	err := to.SetWriteDeadline(time.Now().Add(sendWithin))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return to.Flush()
}
