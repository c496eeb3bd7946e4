package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write the golden files anew; read the difference before you commit it")

// sample is a series of f over from to to, in n points.
func sample(name string, from, to float64, n int, f func(float64) float64) Series {
	s := Series{Name: name}
	for i := range n {
		x := from + (to-from)*float64(i)/float64(n-1)
		s.X, s.Y = append(s.X, x), append(s.Y, f(x))
	}
	return s
}

// sawtooth falls slowly and is cut, as an adaptive rate rises and is cut.
func sawtooth(x float64) float64 { return 20 + 30*math.Mod(x, 60)/60 }

func goldens() map[string]Chart {
	spike := sample("level", 0, 1800, 100_000, func(float64) float64 { return 100 })
	spike.Y[73_123] = 4500
	gaps := Series{Name: "with gaps", X: []float64{0, 1, 2, 3, 4, 5, 6, 7}, Y: []float64{1, 2, math.NaN(), 4, math.Inf(1), 2, 1, 1e301}}
	many := Chart{Title: "many lines", X: "s"}
	for i, name := range []string{"one", "two", "three", "a rather long name", "five", "six", "seven", "eight", "nine"} {
		many.Series = append(many.Series, sample(name, 0, 10, 2, func(x float64) float64 { return x + float64(i) }))
	}
	return map[string]Chart{
		"sawtooth": {Title: "a rate that feels its way", X: "s", Y: "requests a second", Series: []Series{
			sample("sent", 0, 300, 3001, sawtooth),
			sample("served", 0, 300, 2, func(float64) float64 { return 35 }),
		}},
		"steps":    {Title: "steps", X: "s", Series: []Series{{Name: "capacity", X: []float64{0, 2, 2, 4, 4, 4, 6}, Y: []float64{1, 1, 5, 5, 0, 3, 3}}}},
		"spike":    {Title: "one spike in 100,000", X: "s", Y: "tokens", Series: []Series{spike}},
		"gaps":     {Title: "not everywhere a number", Series: []Series{gaps}},
		"point":    {Title: "one point", X: "s", Y: "ms", Series: []Series{{Name: "only", X: []float64{3}, Y: []float64{291.9}, Mark: '●'}}},
		"constant": {Series: []Series{sample("zero", 0, 1, 5, func(float64) float64 { return 0 })}},
		"negative": {Title: "around zero", Series: []Series{sample("sine", -1, 1, 500, func(x float64) float64 { return math.Sin(x * 6) })}},
		"small":    {Title: "small numbers", X: "s", Y: "s", Series: []Series{sample("delay", 0, 0.02, 50, func(x float64) float64 { return x * x })}},
		"large":    {Title: "large numbers", X: "s", Y: "bytes", Series: []Series{sample("sent", 0, 3600, 50, func(x float64) float64 { return x * 40e6 })}},
		"narrow":   {Title: "far from zero", Y: "permits", Series: []Series{sample("level", 0, 60, 60, func(x float64) float64 { return 4490 + x/7 })}},
		"nothing":  {Title: "nothing", Series: []Series{{Name: "void"}}},
		"many":     many,
		"dots": {Title: "a front, and one choice", X: "s", Y: "%", Series: []Series{
			sample("front", 1, 9, 9, func(x float64) float64 { return 9 / x }),
			{Name: "chosen", X: []float64{3}, Y: []float64{3}, Dot: 9},
			{Name: "tried", X: []float64{2, 4, 4, 4, math.NaN(), 8}, Y: []float64{5, 7, 7, 3, 1, math.Inf(1)}, Dot: 3},
			{Name: "none", Dot: 3},
			{Name: "large", X: []float64{6, 7}, Y: []float64{6, 6}, Dot: math.Inf(1)},
		}},
		"nasty": {Title: "a\nb\x1b[31m <script>&\"'\x00\xff", X: "<x>\n", Y: "]]>", Series: []Series{
			{Name: "</svg>\r\x1b[2J", X: []float64{0, 1}, Y: []float64{0, 1}, Mark: '\x1b'},
		}},
	}
}

func TestGolden(t *testing.T) {
	for name, c := range goldens() {
		var text, svg bytes.Buffer
		if err := errors.Join(c.Text(&text, 60, 13), c.SVG(&svg, 0, 0)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden(t, name+".txt", text.Bytes())
		golden(t, name+".svg", svg.Bytes())
		checkText(t, name, text.String())
		checkXML(t, name, svg.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed; if it is meant to, go test -update\n got\n%s\nwant\n%s", name, got, want)
	}
}

func checkText(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(line, unicode.IsControl) || strings.HasSuffix(line, " ") {
			t.Errorf("%s: line %q has control characters, or spaces at its end", name, line)
		}
	}
}

// checkXML wants a well-formed document that asks nothing of anybody else.
func checkXML(t *testing.T, name string, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	var root string
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if root == "" {
			root = e.Name.Local
		}
		for _, a := range e.Attr {
			if a.Name.Local == "href" || a.Name.Local == "src" || strings.HasPrefix(a.Name.Local, "on") || strings.ContainsAny(a.Value, "<>") {
				t.Errorf("%s: <%s %s=%q>", name, e.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
	if root != "svg" || bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) || bytes.Contains(svg, []byte("url(")) {
		t.Errorf("%s: not an SVG by itself:\n%.2000s", name, svg)
	}
}

// Every spike is seen wherever it stands, up or down, in both forms.
func TestSpikesAreSeen(t *testing.T) {
	for at := range 5000 {
		s := sample("level", 0, 1, 5000, func(float64) float64 { return 50 })
		s.Y[at], s.Y[(at+2500)%5000] = 100, 0
		if at%97 != 0 && at > 3 && at < 4996 {
			continue
		}
		c := Chart{Series: []Series{s}}
		var text, svg bytes.Buffer
		if err := errors.Join(c.Text(&text, 40, 11), c.SVG(&svg, 400, 200)); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(text.String(), "\n")
		if !strings.Contains(lines[0], "*") || !strings.Contains(lines[10], "*") {
			t.Fatalf("spikes at %d are not in\n%s", at, text.String())
		}
		for _, edge := range []string{" 48", " 160"} { // the y of the top and the bottom
			if !strings.Contains(svg.String(), edge+"L") && !strings.Contains(svg.String(), edge+`"/>`) {
				t.Fatalf("spikes at %d: no%s in\n%s", at, edge, svg.String())
			}
		}
	}
}

// However many points there are, an SVG stays small.
func TestSVGIsSmall(t *testing.T) {
	var b bytes.Buffer
	c := Chart{Series: []Series{sample("noise", 0, 1, 1_000_000, func(x float64) float64 { return math.Mod(x*7919, 1) })}}
	if err := c.SVG(&b, 720, 360); err != nil || b.Len() > 60_000 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}

// Dots, too, are as many as there are pixels at most, and each is drawn.
func TestDots(t *testing.T) {
	s := sample("noise", 0, 1, 1_000_000, func(x float64) float64 { return math.Mod(x*7919, 1) })
	s.Dot = 2
	var b bytes.Buffer
	if err := (Chart{Series: []Series{s}}).SVG(&b, 200, 160); err != nil || b.Len() > 300_000 {
		t.Errorf("a million dots: %d bytes, %v; want at most 300,000", b.Len(), err)
	}
	for dot, want := range map[float64]int{0: 0, -1: 0, math.NaN(): 0, 4: 4} { // three dots and the legend's
		b.Reset()
		s := Series{Name: "three", X: []float64{1, 2, 3}, Y: []float64{1, 5, 2}, Dot: dot}
		if err := (Chart{Series: []Series{s}}).SVG(&b, 0, 0); err != nil || strings.Count(b.String(), "h0") != want {
			t.Errorf("Dot %v: %d dots, %v; want %d in\n%s", dot, strings.Count(b.String(), "h0"), err, want, b.String())
		}
	}
}

func TestErrors(t *testing.T) {
	for want, s := range map[string]Series{
		`chart: series "a": 2 X for 1 Y`:                         {Name: "a", X: []float64{1, 2}, Y: []float64{1}},
		`chart: series "b": X falls from 3 to 2 at point 2`:      {Name: "b", X: []float64{1, 3, 2}, Y: []float64{1, 1, 1}},
		`chart: series "b": X falls from 3 to 2.5 at point 2`:    {Name: "b", X: []float64{3, math.NaN(), 2.5}, Y: []float64{1, 1, 1}},
		`chart: series "\x1b\n": X falls from 1 to 0 at point 1`: {Name: "\x1b\n", X: []float64{1, 0}, Y: []float64{1, 1}},
	} {
		var b bytes.Buffer
		c := Chart{Series: []Series{s}}
		for _, err := range []error{c.Text(&b, 0, 0), c.SVG(&b, 0, 0)} {
			if err == nil || err.Error() != want || b.Len() > 0 {
				t.Errorf("got %v and %d bytes, want %s and none", err, b.Len(), want)
			}
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriterFails(t *testing.T) {
	for _, err := range []error{Chart{}.Text(broken{}, 0, 0), Chart{}.SVG(broken{}, 0, 0)} {
		if err != io.ErrClosedPipe {
			t.Errorf("got %v, want %v", err, io.ErrClosedPipe)
		}
	}
}

// Sizes of any kind give a chart of a sensible one.
func TestSizes(t *testing.T) {
	c := goldens()["sawtooth"]
	for _, c2 := range []struct{ width, height, wide, lines int }{
		{0, 0, 72, 16}, {-5, -5, 72, 16}, {1, 1, 2, 2}, {3, 2, 3, 2}, {math.MaxInt, math.MaxInt, 1000, 1000}, {200, 5, 200, 5},
	} {
		var b bytes.Buffer
		if err := c.Text(&b, c2.width, c2.height); err != nil {
			t.Fatal(err)
		}
		rows := strings.Count(b.String(), "│") + strings.Count(b.String(), "┤")
		wide := strings.Count(b.String(), "─") + strings.Count(b.String(), "┬")
		if rows != c2.lines || wide != c2.wide {
			t.Errorf("Text(%d, %d) has %d × %d, want %d × %d", c2.width, c2.height, wide, rows, c2.wide, c2.lines)
		}
		if err := c.SVG(io.Discard, c2.width, c2.height); err != nil {
			t.Errorf("SVG(%d, %d): %v", c2.width, c2.height, err)
		}
	}
}

func BenchmarkText(b *testing.B) {
	c := goldens()["spike"]
	for b.Loop() {
		c.Text(io.Discard, 0, 0)
	}
}

// TestLooksDiffer: of the lines of 36 series no two have one colour and one kind of dashes,
// and the dashes are those of the style.
func TestLooksDiffer(t *testing.T) {
	seen := map[string]int{}
	for i := range styles * styles {
		colour, dash := i%styles, dashes[i%styles]
		if _, given, further := strings.Cut(look(i), `style="stroke-dasharray:`); further {
			dash = strings.TrimSuffix(given, `"`)
		}
		key := fmt.Sprint(colour, " ", dash)
		if before, ok := seen[key]; ok {
			t.Errorf("series %d looks as series %d", i, before)
		}
		seen[key] = i
	}
	for i, dash := range dashes[1:] {
		if !strings.Contains(style, fmt.Sprintf("stroke-dasharray: %s; }", dash)) {
			t.Errorf("no style has the dashes %d, %q", i+1, dash)
		}
	}
}
