package page

import (
	"errors"
	"net/http"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/dryrun"
)

type tryBody struct {
	Methods []string
	Report  *dryrun.Report
	Matched int
}

// try is a request that is not sent: which rules match it, and whether it would
// pass.
func try(p *Page, r *http.Request, _ *frame) (any, error) {
	b := &tryBody{Methods: []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}}
	if r.Method != http.MethodPost {
		return b, nil
	}
	header := map[string]string{}
	for line := range strings.Lines(r.PostFormValue("header")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return b, errors.New("header: write a field a line, as X-Client: acme")
		}
		header[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	ask := map[string]any{"header": header}
	for _, name := range []string{"method", "host", "path", "address", "client"} {
		ask[name] = strings.TrimSpace(r.PostFormValue(name))
	}
	var report dryrun.Report
	if err := p.Call(r.Context(), "POST", "/api/v1/try", ask, &report); err != nil {
		return b, err
	}
	b.Report = &report
	for _, one := range report.Rules {
		if one.Applies {
			b.Matched++
		}
	}
	return b, nil
}
