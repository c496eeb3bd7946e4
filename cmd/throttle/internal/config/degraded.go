package config

import (
	"maps"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"
)

// framing are the fields by which an answer is framed: the program writes them.
var framing = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// checkAnswer refuses a static answer that cannot be sent as it is written.
func (f *files) checkAnswer(path string, d *Degraded) {
	for _, name := range slices.Sorted(maps.Keys(d.Header)) {
		at := join(path+".header", name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			f.refuse(at, "is not the name of a header field; write letters, digits and hyphens, as Content-Type")
		case slices.Contains(framing, http.CanonicalHeaderKey(name)):
			f.refuse(at, "frames the answer, which the program does by itself; leave it out")
		case !httpguts.ValidHeaderFieldValue(d.Header[name]):
			f.refuse(at, "has a line break or a control character; write one line of text")
		}
	}
	if d.Status != http.StatusNoContent && d.Status != http.StatusNotModified {
		return
	}
	for name, given := range map[string]string{"body": d.Body, "file": string(d.File)} {
		if given != "" {
			f.refuse(path+"."+name, "an answer of status %d has no body; leave it out, or write another status", d.Status)
		}
	}
}
