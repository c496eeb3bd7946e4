package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// proxy passes requests on to the service. Header fields that only a proxy may
// set are removed, unless the request came from a trusted one.
func (o *options) proxy(live *rules.Live, log *slog.Logger) http.Handler {
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
			if trusted(live, p.In) {
				p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			} else {
				p.Out.Header.Del("X-Real-Ip") // others are gone already
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

// trusted reports whether a request came from a proxy that the rules trust, and
// that has stated the address of its client.
func trusted(live *rules.Live, r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address := from.Addr().Unmap()
	return live.Load().ClientAddress(address, r.Header.Values) != address
}

// sparing bounds how often something is said.
type sparing struct {
	most  limit.Limit
	mu    sync.Mutex
	state limit.State
}

func (s *sparing) may(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, d := limit.Take(s.state, now, limit.Ask{Limit: s.most, N: 1})
	s.state = next
	return d.OK
}
