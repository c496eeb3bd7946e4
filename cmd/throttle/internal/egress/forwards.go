package egress

import (
	"net/http"
	"net/url"
	"strconv"
)

// maxForwards bounds the proxies that a TRACE or OPTIONS request passes (RFC 9110, 7.6.2).
const maxForwards = "Max-Forwards"

// addressed returns a request with the URL that its caller means. In HTTP/2 there is no
// absolute form: a caller that uses this as its proxy names the API by :authority alone
// (RFC 9113, 8.3.1). OPTIONS of a URL with neither path nor query is for the server as a whole
// (RFC 9112, 3.2.4).
func (p *Proxy) addressed(r *http.Request) *http.Request {
	u := *r.URL
	for _, a := range p.apis {
		to := url.URL{Scheme: a.base.Scheme, Host: r.Host}
		if r.ProtoMajor == 2 && u.Host == "" && endOf(&to) == endOf(a.base) {
			u.Scheme, u.Host = to.Scheme, to.Host
		}
	}
	if r.Method == http.MethodOptions && u.Host != "" && u.Path == "" && u.RawQuery == "" {
		u.Path = "*"
	}
	if u == *r.URL {
		return r
	}
	r = r.WithContext(r.Context())
	r.URL = &u
	return r
}

// final returns the answer to a request that goes no further: OPTIONS of this proxy, and one
// that may pass none. A TRACE is not reflected, as its fields may be secret.
func final(r *http.Request) *answer {
	bounded := r.Method == http.MethodOptions || r.Method == http.MethodTrace
	own := r.Method == http.MethodOptions && r.URL.Host == "" && r.URL.Path == "*"
	switch {
	case !own && (!bounded || r.Header.Get(maxForwards) != "0"):
		return nil
	case r.Method == http.MethodTrace:
		return refusal(http.StatusMethodNotAllowed, "final", "TRACE with Max-Forwards: 0 ends here, and is not reflected")
	}
	return refusal(http.StatusOK, "final", "this is the proxy")
}

// forward counts this proxy in the field that bounds them.
func forward(r *http.Request) {
	if n, err := strconv.ParseUint(r.Header.Get(maxForwards), 10, 31); err == nil && n > 0 && (r.Method == http.MethodOptions || r.Method == http.MethodTrace) {
		r.Header.Set(maxForwards, strconv.FormatUint(n-1, 10))
	}
}
