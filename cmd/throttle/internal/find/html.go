package find

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
)

//go:embed find.html
var pageHTML string

// page is what the template shows. Everything that users named is a string, which
// html/template escapes.
type page struct {
	Name   string
	Facts  []fact
	Charts []picture
	Head   []string
	Rows   [][]string
	Legend string
	Rules  string // a file of rules, if any
}

// picture is a chart.
type picture struct {
	Title string
	SVG   template.HTML
}

// writeHTML writes the report as one HTML file that needs nothing else, and runs no
// script.
func (f *findings) writeHTML(w io.Writer) error {
	p := page{Name: f.name(), Facts: f.facts(), Legend: legend}
	for _, c := range f.charts() {
		var svg strings.Builder
		if err := c.SVG(&svg, 640, 360); err != nil {
			return err
		}
		p.Charts = append(p.Charts, picture{c.Title, template.HTML(svg.String())}) // chart escapes its text
	}
	rows := f.cells()
	p.Head, p.Rows = rows[0], rows[1:]
	if r, ok := f.rule(); ok {
		p.Rules = r.file
	}
	t, err := template.New("find").Parse(pageHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}
