package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// proxy passes requests on to the service. Header fields that only a proxy may
// set are removed, unless the request came from a trusted one.
func (o *options) proxy(log *slog.Logger) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.ResponseHeaderTimeout = o.timeout
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 256
	transport.DialContext = (&net.Dialer{Timeout: min(o.timeout, 10*time.Second)}).DialContext
	said := sparing{most: limit.Limit{Count: 1, Period: time.Second}}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(o.to)
			if o.trusts(p.In.RemoteAddr) {
				p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			}
			p.SetXForwarded()
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // see ErrorHandler
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil { // the caller has gone
				return
			}
			if said.may(time.Now()) {
				log.Error("the service did not answer", "err", err)
			}
			status := http.StatusBadGateway
			if t := net.Error(nil); errors.As(err, &t) && t.Timeout() || errors.Is(err, context.DeadlineExceeded) {
				status = http.StatusGatewayTimeout
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(status)
			io.WriteString(w, http.StatusText(status)+"\n") // an error means that the caller has gone
		},
	}
}
