package page

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
)

// TestWritten: a rule to edit is as it stands in a file, with short lists in a line.
func TestWritten(t *testing.T) {
	got := written(json.RawMessage(`{"name":"a","limits":["2/s, burst 3","5/h"],"overrides":[{"key":["x"],"limits":["9/s"]}],"counts":{"over":3}}`))
	want := `{
  "name": "a",
  "limits": ["2/s, burst 3", "5/h"],
  "overrides": [
    {
      "key": ["x"],
      "limits": ["9/s"]
    }
  ]
}`
	if got != want || !json.Valid([]byte(got)) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestAuthor: a version has the author of the change that it is named for.
func TestAuthor(t *testing.T) {
	at := time.Unix(1e9, 0)
	b := &versionsBody{
		Versions: []version{{Name: "v2", Since: at.Add(90 * time.Second)}, {Name: "v2.8", Since: at}, {Name: "v1.8", Since: at}, {Name: "v1.7", Since: at}, {Name: "v1", Since: at}},
		Log:      []change{{note: note{By: "jane", At: at}}, {note: note{By: "sam", At: at}}},
	}
	var got []string
	for i := range b.Versions {
		b.author(i, 8)
		got = append(got, b.Versions[i].By)
	}
	if want := []string{"", "", "jane", "sam", ""}; !slices.Equal(got, want) {
		t.Errorf("authors %q, want %q", got, want)
	}
}

// TestCharts: a slot without a tick is a gap, and refused stands on passed.
func TestCharts(t *testing.T) {
	var all []ticks.Tick
	for i := range int64(120) {
		if i < 60 || i > 70 {
			all = append(all, ticks.Tick{ID: 1000 + i, Seconds: 1, Count: ticks.Count{Passed: 30, Refused: 10}, Rules: map[string]ticks.Count{"a": {Passed: 5}}})
		}
	}
	c := decisions(all, time.Unix(1119, 0), "", chart{Width: 600, Height: 120}, 2)
	if n := strings.Count(c.Bands[0].Path, "Z"); n != 2 || c.Top != "40" {
		t.Errorf("%d areas, want 2 around the gap; top %s, want 40", n, c.Top)
	}
	if !strings.Contains(c.Bands[0].Path, " 30.5L") || !strings.Contains(c.Bands[1].Path, " 1.0L") {
		t.Errorf("30 of 40 are not at three quarters of the height: %.80s", c.Bands[0].Path)
	}
	if c := decisions(all, time.Unix(1119, 0), "a", chart{Width: 120, Height: 24}, 10); c.Top != "5" {
		t.Errorf("of a rule the top is %s", c.Top)
	}
	if c := decisions(nil, time.Unix(1119, 0), "", chart{Width: 120, Height: 24}, 10); c.Bands[0].Path != "" || c.Top != "0" {
		t.Errorf("nothing is drawn as %q to %s", c.Bands[0].Path, c.Top)
	}
	if logarithmic(1e-6) != 0 || math.IsNaN(logarithmic(0)) || !math.IsNaN(logarithmic(math.NaN())) {
		t.Error("the scale of latencies")
	}
}

// TestWords: numbers as the page writes them.
func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		"0": ticks.Rate(0), "0.5": ticks.Rate(0.52), "3": ticks.Rate(3), "1,234": ticks.Rate(1234), "12.3k": ticks.Rate(12345), "1.23M": ticks.Rate(1234567),
		"1 s": lasting(time.Millisecond), "0 s": lasting(-time.Second), "59 s": lasting(59 * time.Second), "1 h 0 min": lasting(time.Hour), "59 min": lasting(59*time.Minute + 20*time.Second), "3 days": lasting(72 * time.Hour),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTicksDrawn: only views with charts read all ticks.
func TestTicksDrawn(t *testing.T) {
	for path, want := range map[string]int{"/": ticks.Kept, "/rules": ticks.Kept, "/who": 1, "/events": 1} {
		asked := 0
		p := &Page{
			Call:   func(context.Context, string, string, any, any) error { return nil },
			Ticks:  func(n int) []ticks.Tick { asked = n; return nil },
			Viewer: func(context.Context) Viewer { return Viewer{} },
			Status: func(error) int { return http.StatusInternalServerError },
		}
		w := httptest.NewRecorder()
		p.View(w, httptest.NewRequest("GET", path, nil))
		if strings.Contains(w.Body.String(), callers.Path) {
			t.Errorf("GET %s: a link to %s, which is not served", path, callers.Path)
		}
		if w.Code != http.StatusOK || asked != want {
			t.Errorf("GET %s: %d, it reads %d ticks, want %d", path, w.Code, asked, want)
		}
	}
}

// TestShown: what a view says, by the answers of the API.
func TestShown(t *testing.T) {
	answers := map[string]string{
		"/api/v1/rules": `{"rules": [{"name": "a", "shadow": true, "limits": ["1/s"]}, {"name": "b", "limits": ["1/s"]}]}`,
		"/api/v1/top":   `{"total": 1200, "instances": 1, "keys": []}`,
	}
	p := &Page{
		Call: func(_ context.Context, _, path string, _, v any) error {
			path, _, _ = strings.Cut(path, "?")
			return json.Unmarshal([]byte(cmp.Or(answers[path], "{}")), v)
		},
		Ticks: func(int) []ticks.Tick {
			return []ticks.Tick{{Seconds: 1, Rules: map[string]ticks.Count{"a": {Shadow: 7}}}}
		},
		Viewer: func(context.Context) Viewer { return Viewer{} },
		Status: func(error) int { return http.StatusInternalServerError },
	}
	for _, c := range []struct {
		path, want string
		times      int
	}{
		{"/rules", `data-of="shadow">7</span> shadow/s`, 1}, // of the shadow rule alone, where there is no room for the column
		{"/who?rule=b&by=refused", "A share is of the 1,200 refusals of all rules in 1 instance.", 1},
		{"/who?rule=b&by=near", "A share is of the 1,200 decisions near a limit of all rules", 1},
		{"/who?rule=b&by=all", "A share is of the 1,200 decisions of all rules", 1},
	} {
		w := httptest.NewRecorder()
		p.View(w, httptest.NewRequest("GET", c.path, nil))
		if got := strings.Count(w.Body.String(), c.want); got != c.times {
			t.Errorf("GET %s: %d, %d times %q, want %d:\n%s", c.path, w.Code, got, c.want, c.times, w.Body)
		}
	}
}
