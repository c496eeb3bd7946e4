package dryrun

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// way is what would make a refused request pass.
func (r *Report) way(a *rules.Answer, q rules.Request) string {
	switch {
	case r.OK:
		return ""
	case a.Reason == rules.Denied:
		return "take " + r.Entry + " out of deny"
	case a.Reason == rules.NoKey:
		return "send every part of the key of rule " + r.Rule + ", or write missing: share or pass into it"
	}
	wait := a.Decision.RetryAfter
	override := "a higher limit in rule " + r.Rule
	for _, one := range r.Rules {
		if key := readable(one.Key, q); one.Name == r.Rule && key != "" {
			override = fmt.Sprintf("an override for %s in rule %s", key, r.Rule)
		}
	}
	more := override + ", or an entry in allow"
	if wait == limit.Never {
		return "no wait helps: " + more
	}
	return "wait " + r.waitOf() + "; or " + more
}

// readable is a key with the values of the request in place of digests, as an override
// has them; empty if none can be written, as a part is missing or too long.
func readable(key string, q rules.Request) string {
	if key == "" {
		return ""
	}
	parts := strings.Split(key, "/")
	for i, text := range parts {
		part, value, _ := strings.Cut(text, "=")
		if strings.HasPrefix(value, "%~") {
			value = valueOf(part, q)
		} else if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if value == "" || len(value) > longestValue {
			return ""
		}
		parts[i] = part + "=" + value
	}
	return strings.Join(parts, " and ")
}

// longestValue is how many bytes of a value an override may have.
const longestValue = 256

// valueOf is a part of a key as the request has it.
func valueOf(part string, q rules.Request) (value string) {
	kind, name, named := strings.Cut(part, ":")
	switch {
	case kind == "header" && named:
		value = q.Header(name)
		if value == "" && name == "Host" { // net/http has it beside the header
			value = q.Host
		}
	case kind == "entry" && named:
		for _, e := range slices.Backward(q.Descriptor) {
			if e.Key == name {
				value = e.Value
			}
		}
	case part == "descriptor":
		value = q.DescriptorText()
	case part == "domain":
		value = q.Domain
	case part == "client":
		value = q.Client
	case q.Value != nil && !named && part != "path":
		value, _ = q.Value(part)
	}
	return value
}

// lasting writes a wait, rounded up to a millisecond.
func lasting(d time.Duration) string {
	return words.Lasting((d + time.Millisecond - 1).Truncate(time.Millisecond))
}

// waitOf is the longest wait of the rules that refuse.
func (r *Report) waitOf() string {
	var longest Limit
	for _, one := range r.Rules {
		for _, l := range one.Limits {
			if !one.Shadow && !l.OK && l.Wait >= longest.Wait {
				longest = l
			}
		}
	}
	text := lasting(longest.Wait)
	if longest.AtMost {
		return "at most " + text
	}
	return text
}

// Write writes the report as text.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(words.OneLine(r.verdict()) + "\n")
	if r.Way != "" {
		b.WriteString("to pass: " + words.OneLine(r.Way) + "\n")
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, one := range r.Rules {
		for i, line := range one.lines() {
			name := one.Name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(t, "  %s\t%s\n", name, words.OneLine(line))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) verdict() string {
	by := ", by version " + r.Version
	switch r.Reason {
	case "unlimited":
		return "passes: no rule limits it" + by
	case "within":
		return "passes: within all limits; rule " + r.Rule + " has the least left" + by
	case "allowed":
		return "passes: " + r.Entry + " is in allow" + by
	case "denied":
		return "refused: " + r.Entry + " is in deny" + by
	case "killed":
		return "passes: kill is on, so nothing is refused; otherwise it would be, by " + cmp.Or(r.Rule, r.Entry) + by
	case "no-key":
		return "refused: rule " + r.Rule + " refuses requests without its key" + by
	}
	return "refused: rule " + r.Rule + ", " + r.Reason + by
}

// lines are what there is to say of a rule.
func (one *Rule) lines() (all []string) {
	begin := "applies"
	switch {
	case !one.Applies:
		return []string{"does not apply: " + one.Why}
	case one.Shadow && !one.OK:
		begin = "applies as a shadow, and would refuse"
	case one.Shadow:
		begin = "applies as a shadow"
	case !one.OK:
		begin = "refuses"
	}
	if one.Key != "" {
		begin += ", key " + one.Key
	} else if len(one.Limits) > 0 {
		begin += ", one key for all"
	}
	if one.Why != "" {
		begin += ": " + one.Why
	}
	all = append(all, begin)
	for _, l := range one.Limits {
		all = append(all, "  "+l.line())
	}
	for _, l := range one.Tried {
		all = append(all, "  tried out: "+l.line())
	}
	if one.InFlight > 0 {
		all = append(all, fmt.Sprintf("  at most %s in flight", words.Whole(one.InFlight)))
	}
	return all
}

func (l Limit) line() string {
	text := l.Limit
	if l.Override {
		text += " (an override)"
	}
	if l.Cost != 1 {
		text += fmt.Sprintf(", cost %s", words.Whole(l.Cost))
	}
	switch {
	case l.OK:
		return fmt.Sprintf("%s: %s left after it", text, words.Whole(l.Left))
	case l.Wait == limit.Never:
		return text + ": can never pass"
	case l.AtMost:
		return text + ": refused, for at most " + lasting(l.Wait)
	}
	return text + ": refused, for " + lasting(l.Wait)
}
