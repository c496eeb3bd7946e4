package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
)

// replayed is POST /api/v1/whatif.
type replayed struct {
	Requests   int64
	From, To   time.Time
	LeftOut    int64 `json:"left_out"`
	Incomplete int64
	Warnings   []string
	Real       struct{ Passed, Refused int64 }
	Before     side
	After      side
}

// side is one version of the rules.
type side struct {
	Version       string
	Refused       int64
	NewlyRefused  int64 `json:"newly_refused"`
	NewlyAdmitted int64 `json:"newly_admitted"`
	Rules         []sideRule
	NewKeys       []sideKey `json:"new_keys"`
	Bins          []struct{ Requests, Refused int64 }
}

type sideRule struct {
	Name                              string
	Asked, Refused, Shadowed, Touched int64
}

type sideKey struct {
	Rule, Name     string
	Refused, Extra int64
}

type whatIfBody struct {
	Rules  []string
	Rule   string
	Text   string // of the rule, to be edited
	Result *replayed
	Charts [2]chart
	Rows   []whatIfRow
}

// whatIfRow is a rule on both sides.
type whatIfRow struct {
	Name          string
	Before, After sideRule
}

// whatIf replays the latest decisions with a rule that was edited.
func whatIf(p *Page, r *http.Request, _ *frame) (any, error) {
	b := &whatIfBody{Rule: r.Form.Get("rule"), Text: r.PostFormValue("text")}
	if err := b.rules(p, r); err != nil || r.Method != http.MethodPost {
		return b, err
	}
	if !json.Valid([]byte(b.Text)) {
		return b, mistake("the rule is not JSON")
	}
	var result replayed
	if err := p.Call(r.Context(), "POST", "/api/v1/whatif", map[string]any{"rule": json.RawMessage(b.Text)}, &result); err != nil {
		return b, err
	}
	b.Result, b.Rows = &result, rowsOf(&result)
	b.draw()
	return b, nil
}

// rules lists the rules in use, and has the chosen one to be edited.
func (b *whatIfBody) rules(p *Page, r *http.Request) error {
	var all struct{ Rules []json.RawMessage }
	if err := p.Call(r.Context(), "GET", "/api/v1/rules", nil, &all); err != nil {
		return err
	}
	for _, raw := range all.Rules {
		var one struct{ Name string }
		if err := json.Unmarshal(raw, &one); err != nil {
			return err
		}
		b.Rules = append(b.Rules, one.Name)
		if b.Rule == "" {
			b.Rule = one.Name
		}
		if b.Text == "" && b.Rule == one.Name {
			b.Text = written(raw)
		}
	}
	return nil
}

// written is a rule as it stands in a file, without what it did.
func written(raw json.RawMessage) string {
	text := raw
	if i := bytes.LastIndex(raw, []byte(`,"counts":`)); i >= 0 {
		text = append(bytes.Clone(raw[:i]), '}')
	}
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(raw)
	}
	return texts.ReplaceAllStringFunc(escaped(b.String()), func(list string) string {
		return blank.ReplaceAllString(comma.ReplaceAllString(list, ", "), "")
	})
}

// escaped is JSON with escapes for what is not seen but changes how text reads.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// texts are lists of texts, which are short enough for a line; between their parts
// stand a comma, or a blank.
var (
	texts = regexp.MustCompile(`\[\s+"[^"\\]*"(?:,\s+"[^"\\]*")*\s+\]`)
	comma = regexp.MustCompile(`,\n\s+`)
	blank = regexp.MustCompile(`\n\s+`)
)

// rowsOf are the rules of both sides, in the order of the first.
func rowsOf(r *replayed) (all []whatIfRow) {
	at := map[string]int{}
	for _, one := range r.Before.Rules {
		at[one.Name] = len(all)
		all = append(all, whatIfRow{Name: one.Name, Before: one})
	}
	for _, one := range r.After.Rules {
		i, known := at[one.Name]
		if !known {
			i = len(all)
			all = append(all, whatIfRow{Name: one.Name})
		}
		all[i].After = one
	}
	return all
}

// draw draws both sides at one scale.
func (b *whatIfBody) draw() {
	top := 0.0
	sides := [2]*side{&b.Result.Before, &b.Result.After}
	for _, s := range sides {
		for _, bin := range s.Bins {
			top = max(top, float64(bin.Requests))
		}
	}
	for i, s := range sides {
		var passed, sum []float64
		for _, bin := range s.Bins {
			passed, sum = append(passed, float64(bin.Requests-bin.Refused)), append(sum, float64(bin.Requests))
		}
		c := chart{Kind: "replay", Width: chartWidth, Height: chartHeight, Label: strings.Fields("Before After")[i] + ": requests passed and refused over the time that was replayed"}
		c.Bands = []band{{"passed", area(passed, make([]float64, len(passed)), c.Width, c.Height, max(top, 1))}, {"refused", area(sum, passed, c.Width, c.Height, max(top, 1))}}
		b.Charts[i] = c
	}
}

// Share is the refused in percent.
func (b *whatIfBody) Share(refused int64) string {
	return ticks.Rate(math.Round(1000*float64(refused)/float64(max(b.Result.Requests, 1)))/10) + " %"
}

// Minutes is the time that was replayed.
func (b *whatIfBody) Minutes() string { return lasting(b.Result.To.Sub(b.Result.From)) }
