package page

import "net/http"

type whatIfBody struct{}

// whatIf replays the latest decisions with other rules.
func whatIf(_ *Page, _ *http.Request, _ *frame) (any, error) { return &whatIfBody{}, nil }
