package page

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A form is a change: the call that it makes, and where it stood.
type form struct {
	method, path string // a path that ends with '/' has the name of the switch behind it
	body         func(url.Values) map[string]any
	back         string // if the form does not say
}

// forms are the changes of the page, by the last part of their path.
var forms = map[string]form{
	"kill":         {"PUT", "kill", fields("for"), "/"},
	"end-kill":     {"DELETE", "kill", fields(), "/"},
	"raise":        {"PUT", "raise", raiseFields, "/who"},
	"end-raise":    {"DELETE", "raise", fields("rule", "key"), "/"},
	"forgive":      {"POST", "forgive", fields("rule", "key"), "/who"},
	"block":        {"PUT", "block", fields("entry", "for"), "/who"},
	"end-block":    {"DELETE", "block", fields("entry"), "/"},
	"exempt":       {"PUT", "exempt", fields("entry", "for"), "/who"},
	"end-exempt":   {"DELETE", "exempt", fields("entry"), "/"},
	"end-switch":   {"DELETE", "switches/", switchFields, "/"},
	"rollback":     {"PUT", "rollback", fields("version"), "/versions"},
	"end-rollback": {"DELETE", "rollback", fields(), "/versions"},
	"reload":       {"POST", "reload", fields(), "/versions"},
}

// done says what a form did, which stays true when the change has ended. The
// redirection names it, so that no text of others is shown.
var done = map[string]string{
	"kill": "The kill switch was switched on.", "end-kill": "The kill switch was switched off: limits count again.",
	"raise": "The limits of the key were raised.", "end-raise": "The raise was ended.", "forgive": "What the key had used was forgiven.",
	"block": "The client was blocked.", "end-block": "The block was ended.", "exempt": "The client was exempted.", "end-exempt": "The exemption was ended.",
	"end-switch": "The value of the switch was ended.",
	"rollback":   "The earlier version was brought back.", "end-rollback": "The roll-back was ended: the sources count again.", "reload": "The files were read again.",
}

// fields are those of a body that a form sends as they are, with the reason.
func fields(names ...string) func(url.Values) map[string]any {
	return func(f url.Values) map[string]any {
		body := map[string]any{"why": strings.TrimSpace(f.Get("why"))}
		for _, name := range names {
			switch name {
			case "key":
				body[name] = f["key"]
			case "for":
				body[name] = cmp.Or(strings.TrimSpace(f.Get("other")), f.Get("for"))
			default:
				body[name] = strings.TrimSpace(f.Get(name))
			}
		}
		return body
	}
}

// raiseFields are those of a raise: limits if there are any, else a factor.
func raiseFields(f url.Values) map[string]any {
	body := fields("rule", "key", "for")(f)
	if limits := strings.FieldsFunc(f.Get("limits"), func(r rune) bool { return r == ',' || r == '\n' }); len(limits) > 0 {
		for i := range limits {
			limits[i] = strings.TrimSpace(limits[i])
		}
		body["limits"] = limits
		return body
	}
	text := strings.TrimSpace(f.Get("times"))
	switch times, err := strconv.ParseFloat(text, 64); {
	case text == "":
	case err != nil || math.IsInf(times, 0) || math.IsNaN(times):
		body["times"] = text // is refused, as "2,5" is, of which the 2 is no answer
	default:
		body["times"] = times
	}
	return body
}

// switchFields are those of a switch, which has one key.
func switchFields(f url.Values) map[string]any {
	body := fields()(f)
	body["key"] = f.Get("key")
	return body
}

// Do makes the change of a form and redirects to the view that it stood in. An error
// is shown there, with the text that was typed.
func (p *Page) Do(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.Problem(w, r, http.StatusBadRequest, "the form cannot be read: "+err.Error())
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/do/")
	f, ok := forms[name]
	if !ok {
		p.Problem(w, r, http.StatusNotFound, errNoForm.Error())
		return
	}
	back := placeOf(r.PostFormValue("back"))
	if back == nil {
		back = placeOf(f.back)
	}
	path := "/api/v1/" + f.path
	if strings.HasSuffix(path, "/") {
		path += url.PathEscape(r.PostForm.Get("switch"))
	}
	var answer any
	if err := p.Call(r.Context(), f.method, path, f.body(r.PostForm), &answer); err != nil {
		p.show(w, r, back, err)
		return
	}
	http.Redirect(w, r, back.Path+"?"+after(name, back, r.PostForm).Encode(), http.StatusSeeOther)
}

// after is the query of the view that a form leads back to.
func after(name string, back *place, f url.Values) url.Values {
	to := url.Values{"done": {name}}
	if back.Name == "who" {
		to["rule"], to["key"] = f["rule"], f["key"]
	}
	return to
}

// span is a length of time to choose.
type span struct {
	Value, Say string
	Chosen     bool
}

// lastingFields are those of a form that say for how long.
type lastingFields struct {
	Spans   []span
	Other   string // as it was typed
	Pattern string // of Other
	Wrong   bool
}

// Lasting are the fields of a form that last for a time unless another one was chosen.
func (f *frame) Lasting(form, usual string) lastingFields {
	l := lastingFields{Other: f.Typed(form, "other"), Pattern: `\s*(\d+\s*d\s*)?(\d+(\.\d+)?\s*[hms]\s*)*`, Wrong: f.wrong(form, "for")}
	chosen := cmp.Or(f.Typed(form, "for"), usual)
	for _, s := range []span{{Value: "1m", Say: "1 minute"}, {Value: "10m", Say: "10 minutes"}, {Value: "1h", Say: "1 hour"}, {Value: "4h", Say: "4 hours"}, {Value: "1d", Say: "1 day"}, {Value: "7d", Say: "7 days"}} {
		s.Chosen = s.Value == chosen
		l.Spans = append(l.Spans, s)
	}
	return l
}

// whyField is that of a form that says its reason.
type whyField struct {
	Text  string // as it was typed
	Wrong bool
}

// Why is the reason of a form.
func (f *frame) Why(form string) whyField {
	return whyField{f.Typed(form, "why"), f.wrong(form, "why")}
}

// Typed is the text of a field of a form that was sent and failed, empty for that of
// another form. What stands in the query of a link was typed by nobody.
func (f *frame) Typed(form, field string) string {
	if f.Failed != form {
		return ""
	}
	return f.posted.Get(field)
}

// wrong reports whether a field of a form was sent and is wrong.
func (f *frame) wrong(form, field string) bool {
	return f.Failed == form && strings.HasPrefix(f.Alert, field+": ")
}
