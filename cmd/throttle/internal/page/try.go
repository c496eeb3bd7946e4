package page

import (
	"net/http"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/dryrun"
)

type tryBody struct {
	Methods []string
	Report  *dryrun.Report
}

// try is a request that is not sent: which rules match it, and whether it would
// pass.
func try(p *Page, r *http.Request, _ *frame) (any, error) {
	b := &tryBody{Methods: []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}}
	if r.Method != http.MethodPost {
		return b, nil
	}
	header, err := fieldsOf(r.PostFormValue("header"))
	if err != nil {
		return b, err
	}
	ask := map[string]any{"header": header}
	for _, name := range []string{"method", "host", "path", "address", "client", "domain", "descriptor"} {
		ask[name] = strings.TrimSpace(r.PostFormValue(name))
	}
	var report dryrun.Report
	if err := p.Call(r.Context(), "POST", "/api/v1/try", ask, &report); err != nil {
		return b, err
	}
	b.Report = &report
	return b, nil
}

// Matched counts the rules that apply.
func (b *tryBody) Matched() (n int) {
	for _, one := range b.Report.Rules {
		if one.Applies {
			n++
		}
	}
	return n
}

// fieldsOf reads a header, a field a line.
func fieldsOf(text string) (map[string]string, error) {
	header := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, mistake("header: write a field a line, as X-Client: acme")
		}
		header[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return header, nil
}
