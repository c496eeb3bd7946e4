package words

import "net/url"

// URL returns a URL without what may be secret: its password, and its query.
func URL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(no URL)"
	}
	u.Fragment = ""
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}
