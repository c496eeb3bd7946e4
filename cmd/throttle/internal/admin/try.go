package admin

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/dryrun"
	"github.com/throttle-go/throttle/rules"
)

// trial is the body of POST /api/v1/try: a request that was not sent.
type trial struct {
	Method  string            `json:"method"` // if empty, GET
	Host    string            `json:"host"`
	Path    string            `json:"path"` // decoded; if empty, /
	Address string            `json:"address"`
	Client  string            `json:"client"`
	Header  map[string]string `json:"header"`
	// Domain and Descriptor (KEY=VALUE,KEY=VALUE) describe a descriptor of Envoy, in place
	// of the fields before.
	Domain     string `json:"domain"`
	Descriptor string `json:"descriptor"`
	// Values and Costs are what the program knows of it, by name.
	Values map[string]string `json:"values"`
	Costs  map[string]int64  `json:"costs"`
}

// maxTrials bounds the trials that run at once.
const maxTrials = 2

// try is POST /api/v1/try: which rules match a request and which do not and why,
// and whether it would pass. Nothing is charged, and keys are read from the store.
func (s *server) try(w http.ResponseWriter, r *http.Request) error {
	var ask trial
	if err := receive(r, &ask); err != nil {
		return err
	}
	q, err := ask.request()
	if err != nil {
		return err
	}
	in, err := s.used()
	if err != nil {
		return err
	}
	if s.c.Store == nil {
		return errNoStore
	}
	select { // each rule is compiled by itself, so a few at a time
	case s.trials <- struct{}{}:
		defer func() { <-s.trials }()
	case <-r.Context().Done():
		return failf(http.StatusServiceUnavailable, "%d trials are running", maxTrials)
	}
	report, err := dryrun.Of(r.Context(), in, s.c.Known, s.c.Store, false, q)
	if err != nil {
		return failf(http.StatusServiceUnavailable, "%v", err)
	}
	reply(w, report)
	return nil
}

func (t *trial) request() (q rules.Request, err error) {
	if t.Domain != "" || t.Descriptor != "" {
		q, err = t.described()
	} else {
		q, err = t.plain()
	}
	q.Value = func(name string) (string, bool) { v, ok := t.Values[name]; return v, ok }
	q.Cost = func(name string) int64 {
		if n, ok := t.Costs[name]; ok {
			return n
		}
		return 1
	}
	return q, err
}

// described returns a descriptor as the service for Envoy sees it.
func (t *trial) described() (q rules.Request, err error) {
	q.Domain = t.Domain
	if q.Descriptor, err = rules.ParseDescriptor(t.Descriptor); err != nil {
		return q, failf(http.StatusBadRequest, "%s", strings.TrimPrefix(err.Error(), "rules: "))
	}
	if q.Domain == "" || len(q.Descriptor) == 0 { // what the service refuses would be explained as what passes
		return q, failf(http.StatusBadRequest, "write domain and descriptor, as Envoy sends both")
	}
	q.Address = q.EntryAddress()
	return q, nil
}

func (t *trial) plain() (q rules.Request, err error) {
	q = rules.Request{Method: t.Method, Host: t.Host, Path: t.Path, Client: t.Client}
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	if q.Path == "" {
		q.Path = "/"
	}
	// What no rule could match would be explained as what passes all of them.
	if strings.ToUpper(q.Method) != q.Method {
		return q, failf(http.StatusBadRequest, "method %.64q: must be in capitals, as GET", q.Method)
	}
	if q.Path[0] != '/' || strings.Contains(q.Path, "?") {
		return q, failf(http.StatusBadRequest, "path %.64q: must begin with / and have no query, as /x", q.Path)
	}
	if t.Address != "" {
		if q.Address, err = netip.ParseAddr(t.Address); err != nil {
			return q, failf(http.StatusBadRequest, "address %.64q: must be an address, as 192.0.2.1", t.Address)
		}
	}
	header := http.Header{}
	for name, value := range t.Header {
		header.Set(name, value)
	}
	q.Header = header.Get
	return q, nil
}
