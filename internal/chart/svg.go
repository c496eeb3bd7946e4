package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// style holds for both light and dark surroundings, and for this drawing only.
// Lines differ in dashes too, for readers who cannot distinguish the colours.
const style = `
.throttle-chart { color: #1f2328; font: 12px system-ui, sans-serif; }
.throttle-chart text { fill: currentColor; }
.throttle-chart .paper { fill: #ffffff; }
.throttle-chart .grid { stroke: currentColor; stroke-opacity: 0.15; }
.throttle-chart .line { fill: none; stroke-width: 1.5; stroke-linejoin: round; stroke-linecap: round; }
.throttle-chart .s0 { stroke: #0969da; }
.throttle-chart .s1 { stroke: #bc4c00; stroke-dasharray: 6 3; }
.throttle-chart .s2 { stroke: #1a7f37; stroke-dasharray: 2 3; }
.throttle-chart .s3 { stroke: #8250df; stroke-dasharray: 9 3 2 3; }
.throttle-chart .s4 { stroke: #bf3989; stroke-dasharray: 12 4; }
.throttle-chart .s5 { stroke: #6e7781; stroke-dasharray: 4 2 1 2; }
@media (prefers-color-scheme: dark) {
.throttle-chart { color: #e6edf3; }
.throttle-chart .paper { fill: #0d1117; }
.throttle-chart .s0 { stroke: #58a6ff; }
.throttle-chart .s1 { stroke: #f0883e; }
.throttle-chart .s2 { stroke: #56d364; }
.throttle-chart .s3 { stroke: #bc8cff; }
.throttle-chart .s4 { stroke: #ff7eb6; }
.throttle-chart .s5 { stroke: #8b949e; }
}
`

const styles = 6 // s0 to s5

// dashes are those of the styles, for further series of the same colour.
var dashes = [styles]string{"none", "6 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2"}

// look is the attributes of the line of series i: beyond the styles it has the colour of
// one and the dashes of another.
func look(i int) string {
	class := fmt.Sprintf(`class="line s%d"`, i%styles)
	if i < styles {
		return class
	}
	return class + fmt.Sprintf(` style="stroke-dasharray:%s"`, dashes[(i+i/styles)%styles])
}

// frame is the room around the lines, in pixels.
const (
	frameLeft, frameRight = 56, 16
	frameTop, frameBottom = 48, 40
	legendLine            = 18
	letter                = 7 // about the width of one
)

// SVG writes c as an SVG document of its own, which may also stand within HTML.
// Width and height are pixels, zero or below being 720 and 360, and at least
// 200 and 160. The error is as that of Text.
func (c Chart) SVG(w io.Writer, width, height int) error {
	if err := c.check(); err != nil {
		return err
	}
	d := drawing{Chart: c, width: 720, height: 360}
	if width > 0 {
		d.width = min(max(width, 200), 10_000)
	}
	if height > 0 {
		d.height = min(max(height, 160), 10_000)
	}
	d.draw()
	_, err := w.Write(d.Bytes())
	return err
}

// drawing is an SVG document in the making.
type drawing struct {
	Chart
	bytes.Buffer
	width, height int
	x, y          scale
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.Buffer, format+"\n", args...) }

func (d *drawing) draw() {
	legend := d.legendPlaces()
	full := d.height + legendLine*legend[len(legend)-1].row
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" class="throttle-chart" role="img" viewBox="0 0 %d %d" width="%d" height="%d">`, d.width, full, d.width, full)
	d.printf("<title>%s</title>", escape(d.Title))
	d.printf("<desc>%s</desc>", escape(d.describe()))
	d.printf("<style>%s</style>", style)
	d.printf(`<rect class="paper" width="%d" height="%d"/>`, d.width, full)
	d.printf(`<text x="%d" y="20" font-size="14" font-weight="600">%s</text>`, frameLeft, escape(d.Title))
	if b, ok := d.bounds(); ok {
		d.axes(b)
		for i := len(d.Series) - 1; i >= 0; i-- { // earlier ones over later ones
			d.series(i)
		}
	} else {
		d.printf(`<text x="%d" y="%d">nothing to draw</text>`, frameLeft, d.height/2)
	}
	for i := range d.Series {
		d.entry(i, legend[i])
	}
	d.printf("</svg>")
}

// describe says in words what the lines show, for readers who do not see them.
func (d *drawing) describe() string {
	var parts []string
	for _, s := range d.Series {
		b, ok := Chart{Series: []Series{s}}.bounds()
		if !ok {
			parts = append(parts, s.Name+": nothing.")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s: from %.6g to %.6g %s, over %.6g to %.6g %s.", s.Name, b.y0, b.y1, d.Y, b.x0, b.x1, d.X))
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

// area is the width and height of the part in which lines are.
func (d *drawing) area() (right, bottom float64) {
	return float64(d.width - frameLeft - frameRight), float64(d.height - frameTop - frameBottom)
}

func (d *drawing) axes(b box) {
	right, bottom := d.area()
	x0, x1 := widenX(b.x0, b.x1)
	y0, y1 := widen(b.y0, b.y1)
	d.x, d.y = inside(x0, x1, int(right)/90), around(y0, y1, int(bottom)/45)
	d.printf(`<text x="%d" y="38" opacity="0.75">%s</text>`, frameLeft, escape(d.Y))
	for i := d.y.first; i <= d.y.last; i++ {
		y := number(frameTop + bottom - float64(d.y.place(d.y.tick(i))*bottom))
		d.printf(`<path class="grid" d="M%d %sH%d"/>`, frameLeft, y, d.width-frameRight)
		d.printf(`<text x="%d" y="%s" dy="4" text-anchor="end">%s</text>`, frameLeft-6, y, d.y.label(i))
	}
	base := d.height - frameBottom
	for i := d.x.first; i <= d.x.last; i++ {
		x := number(frameLeft + float64(d.x.place(d.x.tick(i))*right))
		d.printf(`<path class="grid" d="M%s %dv5"/>`, x, base)
		d.printf(`<text x="%s" y="%d" text-anchor="middle">%s</text>`, x, base+18, d.x.label(i))
	}
	d.printf(`<text x="%d" y="%d" text-anchor="end" opacity="0.75">%s</text>`, d.width-frameRight, base+34, escape(d.X))
}

// series draws line i; a part that is one point alone becomes a dot.
func (d *drawing) series(i int) {
	right, bottom := d.area()
	if d.Series[i].Dot > 0 {
		d.dots(i, d.Series[i].lines(d.x, d.y, right, bottom))
		return
	}
	var path strings.Builder
	for _, line := range d.Series[i].lines(d.x, d.y, right, bottom) {
		for j, p := range thin(line) {
			command := "L"
			if j == 0 {
				command = "M"
			}
			path.WriteString(command + number(frameLeft+p.x) + " " + number(frameTop+p.y))
		}
		if len(line) == 1 {
			path.WriteString("m-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0")
		}
	}
	d.printf(`<path %s d="%s"/>`, look(i), path.String())
}

// dots draws the points of series i, those that fall on the same pixel once.
func (d *drawing) dots(i int, points [][]point) {
	var path strings.Builder
	drawn := map[[2]float64]bool{}
	for _, p := range points {
		pixel := [2]float64{math.Round(p[0].x), math.Round(p[0].y)}
		if !drawn[pixel] {
			drawn[pixel] = true
			path.WriteString("M" + number(frameLeft+p[0].x) + " " + number(frameTop+p[0].y) + "h0")
		}
	}
	d.dot(i, path.String())
}

// dot draws strokes of no length with round ends.
func (d *drawing) dot(i int, path string) {
	d.printf(`<path class="line s%d" style="stroke-width:%s;stroke-dasharray:none" d="%s"/>`, i%styles, number(min(d.Series[i].Dot, 20)), path)
}

// thin is a line with no more than four points to a pixel's width, the first,
// the lowest, the highest and the last, which look the same (M4: Jugel,
// Jerzak, Hackenbroich and Markl, "M4: A Visualization-Oriented Time Series
// Data Aggregation", VLDB 2014).
func thin(line []point) (few []point) {
	for first := 0; first < len(line); {
		end, high, low := first, first, first
		for ; end < len(line) && math.Floor(line[end].x) == math.Floor(line[first].x); end++ {
			if line[end].y < line[high].y {
				high = end
			}
			if line[end].y > line[low].y {
				low = end
			}
		}
		last := -1
		for _, i := range []int{first, min(high, low), max(high, low), end - 1} {
			if i != last {
				few = append(few, line[i])
			}
			last = i
		}
		first = end
	}
	return few
}

// spot is where an entry of the legend stands.
type spot struct{ row, x int }

// legendPlaces are those of all series; the last holds the first free row.
func (d *drawing) legendPlaces() (places []spot) {
	at := spot{0, frameLeft}
	for _, s := range d.Series {
		wide := 32 + letter*len([]rune(s.Name)) + 16
		if at.x > frameLeft && at.x+wide > d.width {
			at = spot{at.row + 1, frameLeft}
		}
		places = append(places, at)
		at.x += wide
	}
	if len(places) > 0 {
		at.row++
	}
	return append(places, at)
}

func (d *drawing) entry(i int, at spot) {
	y := d.height + legendLine*at.row
	if d.Series[i].Dot > 0 {
		d.dot(i, fmt.Sprintf("M%d %dh0", at.x+12, y))
	} else {
		d.printf(`<path %s d="M%d %dh24"/>`, look(i), at.x, y)
	}
	d.printf(`<text x="%d" y="%d" dy="4">%s</text>`, at.x+30, y, escape(d.Series[i].Name))
}

// number is a coordinate, to a tenth of a pixel.
func number(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

func escape(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(clean(text))) // a Buffer never fails
	return b.String()
}
