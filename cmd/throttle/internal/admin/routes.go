package admin

import (
	"net/http"

	"github.com/throttle-go/throttle/rules"
)

// routes are all that the listener answers.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", s.guarded(anyone, http.HandlerFunc(s.livez)))
	mux.Handle("GET /readyz", s.guarded(anyone, http.HandlerFunc(s.readyz)))
	mux.Handle("GET /metrics", s.guarded(reader, s.metrics.handler))
	if s.c.Pprof {
		mux.Handle("/debug/pprof/", s.guarded(writer, s.profiles()))
	}
	if s.c.Callers != nil {
		mux.Handle("GET /callers/", s.guarded(reader, http.StripPrefix("/callers", s.c.Callers)))
	}
	for _, e := range s.endpoints() {
		mux.Handle(e.pattern, s.guarded(e.needs, s.answer(e.do)))
	}
	s.console(mux)
	mux.Handle("/", s.guarded(anyone, s.answer(func(_ http.ResponseWriter, r *http.Request) error {
		return failf(http.StatusNotFound, "there is no %s %s: see docs/operations.md", r.Method, r.URL.Path)
	})))
	return mux
}

// endpoint is a part of the API.
type endpoint struct {
	pattern string
	needs   role
	do      func(http.ResponseWriter, *http.Request) error
}

// endpoints are the API.
func (s *server) endpoints() []endpoint {
	block := s.listed("block", (*rules.Overlay).PutDeny, func(o *rules.Overlay) []rules.Entry { return o.Deny })
	exempt := s.listed("exempt", (*rules.Overlay).PutAllow, func(o *rules.Overlay) []rules.Entry { return o.Allow })
	return []endpoint{
		{"GET /api/v1/status", reader, s.status},
		{"GET /api/v1/series", reader, s.series},
		{"GET /api/v1/stream", reader, s.stream},
		{"GET /api/v1/events", reader, s.events},
		{"GET /api/v1/rules", reader, s.rules},
		{"GET /api/v1/key", reader, s.key},
		{"GET /api/v1/top", reader, s.top},
		{"GET /api/v1/quota", reader, s.quota},
		{"POST /api/v1/try", reader, s.try},
		{"POST /api/v1/whatif", reader, s.whatIf},
		{"POST /api/v1/forgive", writer, s.forgive},
		{"GET /api/v1/overlay", reader, s.overlay},
		{"PUT /api/v1/raise", writer, s.raise},
		{"DELETE /api/v1/raise", writer, s.raise},
		{"PUT /api/v1/block", writer, block},
		{"DELETE /api/v1/block", writer, block},
		{"PUT /api/v1/exempt", writer, exempt},
		{"DELETE /api/v1/exempt", writer, exempt},
		{"PUT /api/v1/kill", writer, s.kill},
		{"DELETE /api/v1/kill", writer, s.kill},
		{"GET /api/v1/switches/{name}", reader, s.toggle},
		{"PUT /api/v1/switches/{name}", writer, s.setSwitch},
		{"DELETE /api/v1/switches/{name}", writer, s.setSwitch},
		{"GET /api/v1/versions", reader, s.versions},
		{"GET /api/v1/versions/{name}", reader, s.version},
		{"GET /api/v1/diff", reader, s.diff},
		{"PUT /api/v1/rollback", writer, s.rollBack},
		{"DELETE /api/v1/rollback", writer, s.rollBack},
		{"POST /api/v1/reload", writer, s.reload},
	}
}

// answer serves do, whose error is a problem.
func (s *server) answer(do func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			refuse(w, err)
		}
	})
}
