package importenvoy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// Begins is how YAML begins.
const Begins = "# Rules for the descriptors of Envoy, by 'throttle import envoy'.\n"

// YAML returns the rules as a file, with the place of each in a comment.
func (r *Result) YAML() []byte {
	var b strings.Builder
	b.WriteString(Begins)
	if len(r.Set.Rules) == 0 {
		b.WriteString("rules: []\n")
		return []byte(b.String())
	}
	b.WriteString("rules:\n")
	for i := range r.Set.Rules {
		one := &r.Set.Rules[i]
		fmt.Fprintf(&b, "  - name: %s # %s\n", quoted(one.Name), words.OneLine(r.Places[i]))
		fmt.Fprintf(&b, "    match: {domains: %s, descriptor: %s}\n", quoted(one.Match.Domains[0]), descriptor(one.Match.Descriptor))
		if len(one.Key) > 0 {
			fmt.Fprintf(&b, "    key: %s\n", quoted(strings.Join(one.Key, "+")))
		}
		fmt.Fprintf(&b, "    limits: %s\n", limit.Limit(one.Limits[0]))
		if one.Shadow.Rule {
			b.WriteString("    shadow: true\n")
		}
		if len(one.Overrides) > 0 {
			b.WriteString("    overrides:\n")
		}
		for _, o := range one.Overrides {
			fmt.Fprintf(&b, "      - {key: [%s], limits: %s}\n", quoted(o.Key[0]), limit.Limit(o.Limits[0]))
		}
	}
	return []byte(b.String())
}

// descriptor writes a list of entries.
func descriptor(pairs []rules.PairPattern) string {
	all := make([]string, len(pairs))
	for i, p := range pairs {
		switch {
		case len(p.Not) > 0 || strings.Contains(p.Key, "="):
			all[i] = object(p)
		case p.Value == "":
			all[i] = quoted(p.Key)
		default:
			all[i] = quoted(p.Key + "=" + p.Value)
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func object(p rules.PairPattern) string {
	text := "{key: " + quoted(p.Key)
	if p.Value != "" {
		text += ", value: " + quoted(p.Value)
	}
	if len(p.Not) > 0 {
		not := make([]string, len(p.Not))
		for i, pattern := range p.Not {
			not[i] = quoted(pattern)
		}
		text += ", not: [" + strings.Join(not, ", ") + "]"
	}
	return text + "}"
}

// quoted writes text as a plain word where that is text to YAML, and else in quotes,
// whose escapes are those of YAML too.
func quoted(text string) string {
	word := text != "" && (text[0] >= 'a' && text[0] <= 'z' || text[0] >= 'A' && text[0] <= 'Z' || text[0] == '/')
	for _, r := range text {
		word = word && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.=/*", r))
	}
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		word = false
	}
	if word {
		return text
	}
	return strconv.Quote(text)
}
