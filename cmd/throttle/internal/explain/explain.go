// Package explain is the command 'throttle explain', which explains an HTTP
// response to its caller.
package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

const help = `throttle explain says what an HTTP response means for its caller.

Usage: throttle explain [flags] < RESPONSE

It reads a response as sent, or as 'curl -i' or 'curl -v' print it: a status
line, header fields and, if you have it, the body; of several, the last. It
prints what a client of ours reads in it: throttled or not, how long to wait,
what the limits are, which field decided, and what was ignored and why. Lines
above the response that begin with # are comments; '# host: NAME' there does
what -host does. Dates count from the Date field, or from now if there is none.

Flags:
  -host HOST    the host that answered, which chooses the preset
  -preset NAME  a preset by name, where the host says nothing, as with kong
  -presets      list the presets
  -status N     the status, for header fields without a status line
  -json         print JSON

Examples:
  curl -si https://api.github.com/zen | throttle explain -host api.github.com
  throttle explain -preset kong < answer.txt
  throttle explain -json < answer.txt
`

// maxAnswer is how much of standard input is read; what signal looks at lies
// before that.
const maxAnswer = 1 << 20

// explanation is what an answer means.
type explanation struct {
	answer  answer
	host    string
	dialect *signal.Dialect
	reading signal.Reading
	notes   []signal.Note
}

// Run reads a response from stdin and explains it.
func Run(_ context.Context, args []string, stdin io.Reader, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("explain", flag.ContinueOnError)
	host := flags.String("host", "", "")
	preset := flags.String("preset", "", "")
	list := flags.Bool("presets", false, "")
	status := flags.Int("status", 0, "")
	asJSON := flags.Bool("json", false, "")
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case len(names) > 0 && !slices.Equal(names, []string{"-"}):
		return usage.Errorf("explain: %s: reads standard input; write 'throttle explain < %s'", words.Quote(names[0]), words.Quote(names[0]))
	case *host != "" && *preset != "":
		return usage.Error("explain: -host and -preset: only one can choose the preset")
	case strings.Contains(*host, "/"):
		return usage.Errorf("explain: -host %s: must be a host without scheme and path, as api.github.com", words.Quote(words.URL(*host)))
	case *status != 0 && (*status < 100 || *status > 999):
		return usage.Errorf("explain: -status %d: must be from 100 to 999", *status)
	case *list && *asJSON:
		return usage.Error("explain: -json: is for a response; leave it out with -presets")
	case *list:
		_, err := fmt.Fprintln(stdout, strings.Join(signal.Names(), "\n"))
		return err
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxAnswer))
	if err != nil {
		return usage.Errorf("explain: standard input: %v", err)
	}
	a, err := readAnswer(text, *status)
	if err != nil {
		return err
	}
	e, err := explanationOf(a, *host, *preset, time.Now())
	if err != nil {
		return err
	}
	if *asJSON {
		return e.writeJSON(stdout)
	}
	return e.write(stdout)
}

// explanationOf reads an answer by the dialect of a host or of that name; what
// the comments say counts where neither is given.
func explanationOf(a answer, host, preset string, now time.Time) (e explanation, err error) {
	if host == "" && preset == "" {
		host, preset = a.host, a.preset
	}
	e = explanation{answer: a, host: host, dialect: signal.For(host)}
	if preset != "" {
		var ok bool
		if e.dialect, ok = signal.Named(preset); !ok {
			return e, usage.Errorf("explain: preset %s is not known; %s", words.Quote(preset), words.Meant(preset, signal.Names()))
		}
	}
	asked := map[string]bool{}
	field := func(name string) string {
		asked[strings.ToLower(name)] = true
		return a.field(name)
	}
	body := a.body
	encoding := a.field("Content-Encoding")
	if encoding != "" && encoding != "identity" {
		body = nil
	}
	e.reading, e.notes = e.dialect.Explain(a.status, field, body, now)
	for i, n := range e.notes {
		e.notes[i].Field = a.spelled(n.Field)
	}
	e.noteRepeated(asked)
	e.noteRest(asked)
	e.noteBody(encoding)
	e.reading.By = a.spelled(e.reading.By)
	return e, nil
}

// noteRepeated notes the further lines of fields of which the first alone counts.
func (e *explanation) noteRepeated(asked map[string]bool) {
	seen := map[string]bool{}
	for _, f := range e.answer.fields {
		name := strings.ToLower(f.name)
		if seen[name] && asked[name] && !joins(f.name) {
			e.ignore(f.name, f.value, "the first line of that name counts")
		}
		seen[name] = true
	}
}

// noteRest notes the fields that sound as if they stated limits, and that the
// preset has not looked at.
func (e *explanation) noteRest(asked map[string]bool) {
	for _, f := range e.answer.fields {
		name := strings.ToLower(f.name)
		if asked[name] {
			continue
		}
		for _, sound := range []string{"ratelimit", "rate-limit", "retry", "quota", "throttl", "usage", "backoff"} {
			if strings.Contains(name, sound) {
				e.ignore(f.name, f.value, "the preset "+e.dialect.Name()+" makes no use of it here")
				break
			}
		}
	}
}

// noteBody notes why a body has no part.
func (e *explanation) noteBody(encoding string) {
	body := bytes.TrimSpace(e.answer.body)
	if len(body) == 0 {
		return
	}
	begins := string(body[:min(len(body), 40)])
	for _, n := range e.notes {
		if strings.HasPrefix(n.Field, "body ") {
			return
		}
	}
	switch {
	case !e.dialect.WantsBody(e.answer.status):
		e.ignore("body", begins, fmt.Sprintf("the preset %s reads no body of %d", e.dialect.Name(), e.answer.status))
	case encoding != "" && encoding != "identity":
		e.ignore("body", "", "its Content-Encoding is "+encoding+"; write 'curl --compressed'")
	default:
		e.ignore("body", begins, "nothing in it that the preset "+e.dialect.Name()+" knows")
	}
}

func (e *explanation) ignore(field, value, why string) {
	e.notes = append(e.notes, signal.Note{Field: field, Value: value, Says: why, Ignored: true})
}

// write says it to people.
func (e *explanation) write(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%s%s\n", table.Fill(name, 13), words.OneLine(fmt.Sprintf(format, args...)))
	}
	r := e.reading
	read := "preset " + e.dialect.Name()
	if e.host != "" {
		read = e.host + ", " + read
	}
	line("read as", "%s", read)
	line("status", "%s", e.answer.line)
	if e.answer.skipped > 0 {
		line("", "the last of %d answers", e.answer.skipped+1)
	}
	line("verdict", "%s", verdictInWords(r))
	if r.After.OK {
		line("wait", "%s", words.Lasting(r.After.V))
	}
	if r.By != "" {
		line("decided by", "%s", r.By)
	}
	if r.Reason != "" {
		line("reason", "%s", r.Reason)
	}
	if r.Scope != signal.ScopeUnknown || r.ScopeName != "" {
		line("scope", "%s", strings.TrimSpace(r.Scope.String()+" "+r.ScopeName))
	}
	if r.Concurrency {
		line("in flight", "too much at once: fewer will do, at the same pace")
	}
	if r.Cost.OK {
		line("cost", "%s", words.Whole(r.Cost.V))
	}
	for _, p := range e.policies() {
		line("limit", "%s", policyInWords(p))
	}
	if r.Share.OK {
		line("fair part", "%s a second", words.Number(r.Share.V))
	}
	if len(e.notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range e.notes {
		line("", "%s", noteInWords(n))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// policies are all limits of a reading.
func (e *explanation) policies() []signal.Policy {
	r := e.reading
	if r.Policies != nil {
		return r.Policies
	}
	if !r.Limit.OK && !r.Remaining.OK && !r.Reset.OK {
		return nil
	}
	return []signal.Policy{{Unit: "requests", Limit: r.Limit, Remaining: r.Remaining, Window: r.Window, Reset: r.Reset, Burst: r.Burst}}
}

func verdictInWords(r signal.Reading) string {
	text := "served"
	switch {
	case r.Permanent && r.Verdict == pace.Served:
		text = "refused, but not for load"
	case r.Verdict == pace.Throttled:
		text = "throttled: refused for load"
		if r.Unsure {
			text += ", or failed: a few such count as failures"
		}
	case r.Verdict == pace.Failed:
		text = "failed: for a reason that has nothing to do with load"
	}
	if r.Permanent {
		text += "; do not ask again"
	}
	return text
}

func policyInWords(p signal.Policy) string {
	var text []string
	most := p.Limit // of which something remains
	if p.Burst.OK {
		most = p.Burst
	}
	switch {
	case p.Remaining.OK && most.OK:
		text = append(text, fmt.Sprintf("%s of %s %s left", words.Whole(p.Remaining.V), words.Whole(most.V), p.Unit))
	case p.Remaining.OK:
		text = append(text, fmt.Sprintf("%s %s left", words.Whole(p.Remaining.V), p.Unit))
	case p.Limit.OK:
		text = append(text, fmt.Sprintf("%s %s", words.Whole(p.Limit.V), p.Unit))
	default:
		text = append(text, p.Unit)
	}
	if p.Burst.OK && p.Remaining.OK && p.Limit.OK {
		text = append(text, "limit "+words.Whole(p.Limit.V))
	}
	if p.Window.OK {
		text = append(text, "window "+words.Lasting(p.Window.V))
	}
	if p.Reset.OK {
		text = append(text, "reset in "+words.Lasting(p.Reset.V))
	}
	if p.Partition != "" {
		text = append(text, "partition "+p.Partition)
	}
	if p.Name != "" {
		return p.Name + ": " + strings.Join(text, ", ")
	}
	return strings.Join(text, ", ")
}

func noteInWords(n signal.Note) string {
	says := n.Says
	if n.Ignored {
		says = "ignored: " + says
	}
	if n.Value == "" {
		return n.Field + ": " + says
	}
	return fmt.Sprintf("%s: %s -> %s", n.Field, n.Value, says)
}

// writeJSON writes version 1 of the form that 'throttle explain -json' prints.
func (e *explanation) writeJSON(w io.Writer) error {
	r := e.reading
	out := jsonReading{
		Version: 1, Host: e.host, Preset: e.dialect.Name(), Status: e.answer.status,
		Verdict: r.Verdict.String(), Permanent: r.Permanent, Concurrency: r.Concurrency, Unsure: r.Unsure,
		Wait: secondsOf(r.After), By: r.By, Reason: r.Reason, Scope: r.Scope.String(), ScopeName: r.ScopeName,
		Share: present(r.Share), Cost: present(r.Cost), Limits: []jsonPolicy{}, Notes: []jsonNote{},
	}
	for _, p := range e.policies() {
		out.Limits = append(out.Limits, jsonPolicy{p.Name, p.Unit, present(p.Limit), present(p.Remaining), secondsOf(p.Window), secondsOf(p.Reset), p.Partition, present(p.Burst)})
	}
	for _, n := range e.notes {
		out.Notes = append(out.Notes, jsonNote(n))
	}
	return json.NewEncoder(w).Encode(out)
}

type jsonReading struct {
	Version     int          `json:"version"`
	Host        string       `json:"host,omitempty"`
	Preset      string       `json:"preset"`
	Status      int          `json:"status"`
	Verdict     string       `json:"verdict"`
	Permanent   bool         `json:"permanent"`
	Concurrency bool         `json:"concurrency"`
	Unsure      bool         `json:"unsure"`
	Wait        *float64     `json:"wait_s,omitempty"`
	By          string       `json:"by,omitempty"`
	Reason      string       `json:"reason,omitempty"`
	Scope       string       `json:"scope"`
	ScopeName   string       `json:"scope_name,omitempty"`
	Share       *float64     `json:"share,omitempty"`
	Cost        *int64       `json:"cost,omitempty"`
	Limits      []jsonPolicy `json:"limits"`
	Notes       []jsonNote   `json:"notes"`
}

type jsonPolicy struct {
	Name      string   `json:"name,omitempty"`
	Unit      string   `json:"unit"`
	Limit     *int64   `json:"limit,omitempty"`
	Remaining *int64   `json:"remaining,omitempty"`
	Window    *float64 `json:"window_s,omitempty"`
	Reset     *float64 `json:"reset_s,omitempty"`
	Partition string   `json:"partition,omitempty"`
	Burst     *int64   `json:"burst,omitempty"`
}

type jsonNote struct {
	Field   string `json:"field"`
	Value   string `json:"value,omitempty"`
	Says    string `json:"says"`
	Ignored bool   `json:"ignored"`
}

func present[T any](o pace.Opt[T]) *T {
	if !o.OK {
		return nil
	}
	return &o.V
}

func secondsOf(o pace.Opt[time.Duration]) *float64 {
	if !o.OK {
		return nil
	}
	s := o.V.Seconds()
	return &s
}
