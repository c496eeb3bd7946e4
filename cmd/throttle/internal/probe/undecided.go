package probe

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/fit"
)

// alike is the logarithm of 99:1, by which a kind has to be behind the first to be
// excluded.
var alike = math.Log(99)

// remaining are the candidates that are not excluded.
func (f *findings) remaining() (all []fit.Candidate) {
	for _, c := range f.Candidates {
		if c.LogLikelihood >= f.limiter().LogLikelihood-alike {
			all = append(all, c)
		}
	}
	return all
}

// doubt is the paragraph on a limiter that is not identified: which kinds remain,
// and what would tell them apart.
func (f *findings) doubt() string {
	all := f.remaining()
	text := []string{"Not identified: " + f.left(all) + "."}
	switch {
	case f.Refused == 0:
		text = append(text, "A limit shows where it is exceeded: send more (-requests) and more at once (-at-once).")
	case len(all) == 2:
		text = append(text, apart(all[0].Model, all[1].Model)+".")
	case len(all) > 2:
		text = append(text, strings.Replace(apart(all[0].Model, all[1].Model), " them ", " the first two ", 1)+".")
	}
	return strings.Join(append(text, f.more(all)...), " ")
}

// left says which kinds remain, with their likelihoods.
func (f *findings) left(all []fit.Candidate) string {
	if all[0].Model.Kind == fit.Unlimited && len(all) == 1 {
		return f.Why
	}
	if len(all) == 1 {
		return fmt.Sprintf("only a %s remains (ln %s, %s), but %s", kindText(all[0].Model), likelihoodText(all[0].LogLikelihood), shareText(all[0].Share), f.Why)
	}
	var kinds []string
	for _, c := range all {
		kinds = append(kinds, fmt.Sprintf("%s (ln %s, %s)", kindText(c.Model), likelihoodText(c.LogLikelihood), shareText(c.Share)))
	}
	return words.Enumerate(kinds) + " remain, less than 99:1 apart"
}

func kindText(m fit.Model) string {
	if m.FromFirst {
		return "fixed window from the first request"
	}
	return m.Kind.String()
}

// apart is what tells two kinds from each other.
func apart(a, b fit.Model) string {
	is := func(k fit.Kind) bool { return a.Kind == k || b.Kind == k }
	switch {
	case is(fit.Unlimited):
		return "Refusals tell a limit from none"
	case is(fit.Delay):
		return "Many requests at once tell a queue, whose answers come later and later"
	case is(fit.Concurrency):
		return "Many requests at once after a rest, and then one after the other, tell a concurrency limit from a rate"
	case a.Kind == b.Kind:
		return "A first request late in a period tells windows from the first request, which end later for it, from those of the clock"
	case is(fit.TokenBucket) && is(fit.SlidingCounter):
		return "Refusals across two ends of a window tell them apart: what comes back changes there, and that of a bucket never does"
	case is(fit.TokenBucket):
		return "A rest after a refusal tells them apart: a bucket gives back in proportion to it, a window nothing before its period has passed"
	case is(fit.SlidingCounter):
		return "A rest shorter than the period tells them apart: only a sliding window counter gives back evenly"
	}
	return "A part of the count now and the rest across the end of a period tell them apart: only a sliding log still counts the part"
}

// more is what to ask for in the next run: a budget, time, or quiet.
func (f *findings) more(all []fit.Candidate) (text []string) {
	bound, _, _ := strings.Cut(f.ended, " ")
	switch bound {
	case "-requests", "-refusals":
		text = append(text, fmt.Sprintf("It ended by %s: allow more.", f.ended))
	case "-for":
		text = append(text, fmt.Sprintf("It ended by %s: observe for longer%s.", f.ended, f.ends(all)))
	case "":
		if least := f.ends(all); least != "" && f.Refused > 0 {
			text = append(text, fmt.Sprintf("It saw %s: observe for longer%s.", brief(f.length), least))
		}
	default:
		text = append(text, fmt.Sprintf("It ended by %s.", f.ended))
	}
	if f.Shared && !f.barred() {
		text = append(text, "Others use the same limit: run it again at a quieter time.")
	}
	return text
}

// ends says how long three of the longest period that remains are, if that is
// longer than was observed.
func (f *findings) ends(all []fit.Candidate) string {
	longest := slices.MaxFunc(all, func(a, b fit.Candidate) int { return int(min(max(a.Period-b.Period, -1), 1)) }).Period
	if longest > math.MaxInt64/3 || 3*longest <= f.length {
		return ""
	}
	return fmt.Sprintf(", at least %s, three periods of %s", words.Short((3 * longest).Round(time.Second)), brief(longest))
}
