package egress

import (
	"net/url"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// parseURL reads the URL of an API. It returns what is wrong with it, or "".
func parseURL(text string) (u *url.URL, what string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Scheme == "" || u.Hostname() == "":
		return nil, "is not a URL; write https://HOST" + words.Brackets(text)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "begins with " + words.Quote(u.Scheme+":") + "; it must be https: or http:"
	case words.StrayAt(u) || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, "must have no user, no query and no #"
	case words.BadPort(u) != "":
		return nil, words.BadPort(u)
	case climbs(u.Path):
		return nil, "must have no .. in its path"
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, ""
}

// endOf is the host and port of a URL, in one form.
func endOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) + " " + port
}

// serves reports whether a URL is one of the API's: its host, below its path. An http URL
// of the usual port is that of an API by https, too, as it is then sent by https; never
// the other way.
func (a *api) serves(u *url.URL) bool {
	same := u.Scheme == a.base.Scheme && endOf(u) == endOf(a.base)
	upgrade := u.Scheme == "http" && a.base.Scheme == "https" &&
		endOf(u) == endOf(&url.URL{Scheme: "http", Host: a.base.Hostname()}) && endOf(a.base) == endOf(&url.URL{Scheme: "https", Host: a.base.Hostname()})
	path, below := strings.CutPrefix(u.EscapedPath(), a.base.EscapedPath())
	return (same || upgrade) && below && (path == "" || path[0] == '/' || u.Path == "*")
}

// climbs reports whether a path has a segment "..", by which it would leave what is
// before it. Some servers take \ for /, or part a segment at a semicolon.
func climbs(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if name, _, _ := strings.Cut(segment, ";"); name == ".." {
			return true
		}
	}
	return false
}

// find returns the API that a request is for, by its URL as it came, and where it goes.
// byPath says that the URL had the name of the API in its path. own is a host and port
// that are those of this proxy: an absolute URL of it is as good as a path. If there is
// no such API, a is nil, and no is the answer.
func find(all []*api, u *url.URL, own string) (a *api, to *url.URL, byPath bool, no *answer) {
	byPath = u.Host == "" || u.Host == own
	path := u.EscapedPath()
	switch {
	case u.Opaque != "" || !strings.HasPrefix(path, "/") && (byPath || path != "" && path != "*"):
		return nil, nil, byPath, refusal(400, "bad-request", "the path must begin with /")
	case climbs(u.Path):
		return nil, nil, byPath, refusal(400, "bad-request", "the path must have no ..")
	case byPath:
		name, rest, slash := strings.Cut(path[1:], "/")
		for _, a := range all {
			if a.name == name {
				if slash {
					rest = "/" + rest
				}
				return a, at(a.base, a.base.EscapedPath()+rest, u), true, nil
			}
		}
		return nil, nil, true, refusal(404, "unknown-api", "no API has the name "+words.Quote(name)+"; write /NAME/PATH, as in "+"/"+all[0].name+"/")
	}
	for _, other := range all {
		if other.serves(u) && (a == nil || len(other.base.Path) > len(a.base.Path)) {
			a = other
		}
	}
	if a == nil {
		return nil, nil, false, refusal(403, "not-listed", u.Scheme+"://"+u.Host+" is not the URL of an API that is listed here")
	}
	return a, at(a.base, path, u), false, nil
}

// at is a URL at the host of base, with a path that is escaped, and the query of u.
func at(base *url.URL, path string, u *url.URL) *url.URL {
	plain, _ := url.PathUnescape(path) // it is made of escaped paths
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: plain, RawPath: path, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery}
}
