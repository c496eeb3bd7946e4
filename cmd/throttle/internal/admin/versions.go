package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// versionState is a version of GET /api/v1/versions.
type versionState struct {
	Name    string    `json:"name"`
	Since   time.Time `json:"since"`
	Changes []string  `json:"changes"`
}

// versions is GET /api/v1/versions: those kept by this process, the one in use
// first; and whether an earlier one was brought back.
func (s *server) versions(w http.ResponseWriter, _ *http.Request) error {
	all := []versionState{}
	back := false
	if s.c.Stack != nil {
		for _, v := range slices.Backward(s.c.Stack.Versions()) {
			all = append(all, versionState{v.Name, v.Since, list(v.Changes)})
		}
		o, _ := s.c.Stack.Overlay()
		back = o.Set != nil
	}
	reply(w, map[string]any{"versions": all, "brought_back": back})
	return nil
}

// version is GET /api/v1/versions/NAME: its rules, with what was on top of them.
func (s *server) version(w http.ResponseWriter, r *http.Request) error {
	v, err := s.find(r.PathValue("name"))
	if err != nil {
		return err
	}
	reply(w, map[string]any{"name": v.Name, "since": v.Since, "changes": list(v.Changes), "set": v.Set()})
	return nil
}

// diff is GET /api/v1/diff?from=NAME&to=NAME; without to, the one in use.
func (s *server) diff(w http.ResponseWriter, r *http.Request) error {
	if r.FormValue("from") == "" {
		return failf(http.StatusBadRequest, "from: is missing; name a version of GET /api/v1/versions, as in ?from=NAME")
	}
	from, err := s.find(r.FormValue("from"))
	if err != nil {
		return err
	}
	to, err := s.set()
	if err != nil {
		return err
	}
	if named := r.FormValue("to"); named != "" {
		v, err := s.find(named)
		if err != nil {
			return err
		}
		to = v.Set()
	}
	reply(w, map[string]any{"from": from.Name, "to": to.Version, "changes": list(rules.Diff(from.Set(), to))})
	return nil
}

func (s *server) find(named string) (rules.Version, error) {
	var names []string
	if s.c.Stack != nil {
		for _, v := range slices.Backward(s.c.Stack.Versions()) {
			if v.Name == named {
				return v, nil
			}
			names = append(names, v.Name)
		}
	}
	return rules.Version{}, failf(http.StatusNotFound, "version %.64q is not kept; there are %q", named, names)
}

// rollBack is PUT and DELETE /api/v1/rollback: an earlier version in place of what
// the sources say, in all instances; and its end.
func (s *server) rollBack(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Version string `json:"version"`
		reason
	}
	if err := receive(r, &ask); err != nil {
		return err
	}
	remove := r.Method == http.MethodDelete
	return s.audited(w, r, name(remove, "rollback"), ask.Version, &ask.reason, func(ctx context.Context) (any, error) {
		note := ask.note(time.Time{})
		if remove {
			err := s.edit(ctx, note, func(o *rules.Overlay) error {
				if o.Set == nil {
					return failf(http.StatusNotFound, "no version was brought back")
				}
				o.Set = nil
				return nil
			})
			return s.inUse(), err
		}
		if _, err := s.find(ask.Version); err != nil {
			return nil, err
		}
		if s.c.Stack.Shared == nil {
			return nil, s.edit(ctx, note, nil)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), editWithin)
		defer cancel()
		err := editProblem(s.c.Stack.BringBack(ctx, ask.Version, note))
		return s.inUse(), err
	})
}

// reload is POST /api/v1/reload: the files are read again, as at SIGHUP. They are even if
// the caller goes: else a source that is slow would count as failed until its next time.
func (s *server) reload(w http.ResponseWriter, r *http.Request) error {
	var ask reason
	if err := receive(r, &ask); err != nil {
		return err
	}
	return s.audited(w, r, "reload", "", &ask, func(ctx context.Context) (any, error) {
		if s.c.Reload == nil {
			return nil, failf(http.StatusNotFound, "this process has no files to read again")
		}
		if err := s.c.Reload(context.WithoutCancel(ctx)); err != nil {
			return nil, failf(http.StatusUnprocessableEntity, "%v; in place of what is bad, what was in use stays", err)
		}
		return s.inUse(), nil
	})
}

// inUse is the answer to what changes the version.
func (s *server) inUse() any { return map[string]any{"version": s.configuration().Version} }
