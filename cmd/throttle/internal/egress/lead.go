package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// modify changes an answer of an API: it has no field that marks those of this proxy, and no
// type that net/http guesses. Where the caller came by path, it leads back to this proxy.
func modify(a *http.Response) error {
	if a.StatusCode < 100 { // net/http panics at it
		return fmt.Errorf("answered with the status %03d, which is none", a.StatusCode)
	}
	delete(a.Header, generated)
	delete(a.Header, mayHaveRun)
	x := exchangeOf(a.Request.Context())
	if x == nil {
		return nil
	}
	if a.StatusCode != http.StatusSwitchingProtocols {
		x.upload.last(x.header)
	}
	if len(a.Header["Content-Type"]) == 0 {
		x.header["Content-Type"] = nil
	}
	if x.own == "" {
		return nil
	}
	if to := a.Header.Get("Location"); to != "" {
		a.Header.Set("Location", x.lead(to))
	}
	for i, link := range a.Header["Link"] { // of the next page, as a rule
		a.Header["Link"][i] = linked.ReplaceAllStringFunc(link, func(to string) string { return "<" + x.lead(to[1:len(to)-1]) + ">" })
	}
	for i, line := range a.Header["Set-Cookie"] {
		a.Header["Set-Cookie"][i] = x.cookie(line)
	}
	return nil
}

// linked is a target in a Link field.
var linked = regexp.MustCompile("<[^<>]*>")

// lead returns a reference of an answer as the caller is to follow it: by this proxy if it is
// below the URL of the API. One that is elsewhere on the API's host gets that host: without it,
// it would lead to whatever has that path here, as another API.
func (x *exchange) lead(to string) string {
	in, err := url.Parse(to)
	if err != nil || in.Opaque != "" || in.Host == "" && !strings.HasPrefix(in.Path, "/") && !climbs(in.Path) {
		return to // it is relative to the path, which is the same here
	}
	u := x.to.ResolveReference(in)
	path, below := strings.CutPrefix(u.EscapedPath(), x.api.base.EscapedPath())
	switch {
	case below && x.api.serves(u):
	case in.Scheme != "":
		return to
	default:
		return u.String()
	}
	if u.ForceQuery || u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		path += "#" + u.EscapedFragment()
	}
	return x.own + path
}

// cookie returns a cookie of an API as one for its paths at this proxy: by path, all APIs have
// the same host, and a cookie of one would be sent to the others.
func (x *exchange) cookie(line string) string {
	path := x.to.EscapedPath()
	path = path[:max(strings.LastIndexByte(path, '/'), 0)] // RFC 6265, 5.1.4
	parts := strings.Split(line, ";")
	kept := parts[:1]
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		switch value = strings.TrimSpace(value); {
		case strings.EqualFold(strings.TrimSpace(name), "Domain"): // that of the API
		case !strings.EqualFold(strings.TrimSpace(name), "Path"):
			kept = append(kept, part)
		case strings.HasPrefix(value, "/"):
			path = value
		}
	}
	if rest, ok := strings.CutPrefix(path, x.api.base.EscapedPath()); ok && (rest == "" || rest[0] == '/') {
		path = rest
	}
	return strings.Join(kept, ";") + "; Path=/" + x.api.name + strings.TrimRight(path, "/")
}
