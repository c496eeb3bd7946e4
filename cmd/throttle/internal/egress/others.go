package egress

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
)

// passesOn reports whether a request that was refused goes to another host, unpaced: one with
// an absolute URL that is of no API. CONNECT is not among them, nor is one that came back.
func (p *Proxy) passesOn(r *http.Request, no *answer) bool {
	return p.others != nil && no.reason == "not-listed" && r.Method != http.MethodConnect && !slices.Contains(r.Header[loopField], p.mark)
}

// newOthers makes what sends requests on to other hosts, as they are.
func (p *Proxy) newOthers() *httputil.ReverseProxy {
	transport := (&api{API: API{Private: true}}).dials(p.cfg.Timeout)
	transport.DisableCompression = true // the caller asks for it, or not
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			keepForwarded(r)
			r.Out.Header.Add(loopField, p.mark)
		},
		Transport: transport, ModifyResponse: modify, BufferPool: new(buffers), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the caller has gone, or the proxy ends
			}
			a := refusal(http.StatusBadGateway, "unreachable", r.URL.Host+": "+err.Error())
			a.ran = true
			a.write(w)
		},
	}
}
