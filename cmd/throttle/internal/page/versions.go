package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// version is one of GET /api/v1/versions.
type version struct {
	Name    string
	Since   time.Time
	Changes []string
	By, Why string // of a change by hand at that time
}

type versionsBody struct {
	Versions   []version
	Back       bool `json:"brought_back"`
	From, To   string
	Difference []string
	Log        []change // the latest first
}

// versions are those kept, their difference, and who changed what by hand.
func versions(p *Page, r *http.Request, _ *frame) (any, error) {
	b := &versionsBody{From: r.Form.Get("from"), To: r.Form.Get("to")}
	if err := p.Call(r.Context(), "GET", "/api/v1/versions", nil, b); err != nil {
		return b, err
	}
	var hand byHand
	if err := p.Call(r.Context(), "GET", "/api/v1/overlay", nil, &hand); err == nil {
		b.Log = hand.Overlay.Log
		slices.Reverse(b.Log)
	}
	for i := range b.Versions {
		b.author(i, hand.Overlay.Serial)
	}
	if b.From == "" && len(b.Versions) > 1 {
		b.From, b.To = b.Versions[1].Name, b.Versions[0].Name
	}
	return b, b.compare(p, r)
}

// compare lists the differences of the chosen versions.
func (b *versionsBody) compare(p *Page, r *http.Request) error {
	if b.From == "" {
		return nil
	}
	var d struct{ Changes []string }
	ask := url.Values{"from": {b.From}, "to": {b.To}}
	err := p.Call(r.Context(), "GET", "/api/v1/diff?"+ask.Encode(), nil, &d)
	b.Difference = d.Changes
	return err
}

// author finds the change by hand that made a version: the name ends with the number
// of the latest, and the version before has another; or nothing by hand is left.
func (b *versionsBody) author(i int, serial int64) {
	v, before := &b.Versions[i], ""
	if i+1 < len(b.Versions) {
		before = ending(b.Versions[i+1].Name)
	}
	own := ending(v.Name)
	if own == before {
		return
	}
	for k, c := range b.Log {
		made := own == strconv.FormatInt(serial-int64(k), 10)
		if d := v.Since.Sub(c.At); made || own == "" && d >= -time.Second && d < 2*time.Second {
			v.By, v.Why = c.By, c.Why
			return
		}
	}
}

// ending is the number at the end of a version that has changes by hand, else "".
func ending(name string) string {
	i := strings.LastIndexByte(name, '.')
	if _, err := strconv.ParseUint(name[i+1:], 10, 63); i < 0 || err != nil {
		return ""
	}
	return name[i+1:]
}
