package admin

import (
	"net/http"
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
	for _, e := range s.endpoints() {
		mux.Handle(e.pattern, s.guarded(e.needs, s.answer(e.do)))
	}
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
	return []endpoint{
		{"GET /api/v1/status", reader, s.status},
		{"GET /api/v1/events", reader, s.events},
		{"GET /api/v1/rules", reader, s.rules},
		{"GET /api/v1/key", reader, s.key},
		{"POST /api/v1/forgive", writer, s.forgive},
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
