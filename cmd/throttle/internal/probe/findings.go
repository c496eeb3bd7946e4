package probe

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// findings are what the answers say.
type findings struct {
	fit.Result
	host     string
	length   time.Duration // from the first request to the last answer
	latency  time.Duration // of 99 in 100 answers
	usual    time.Duration // of half of them
	least    time.Duration // of the fastest
	statuses map[int]int   // how many answers of each
	told     []signal.Policy
	wait     time.Duration // the longest that a refusal told
	ended    string        // the bound that ended it, if one did
	seen     []seen
	reader   reader // of them
	cached   int    // answers of a cache
	unchosen string // says that a URL chose none of them, if one was given
}

func (f *findings) writeLog(w io.Writer) error { return writeLog(w, f.reader, f.seen) }

func findingsOf(r reader, host string, all []seen, answers []fit.Answer, ended string) *findings {
	f := &findings{Result: fit.Fit(answers), host: host, ended: ended, seen: all, reader: r, statuses: map[int]int{}}
	var took []time.Duration
	for _, s := range all {
		f.statuses[s.status]++
		f.length = max(f.length, s.ended.Sub(all[0].sent))
		if s.status > 0 { // else it is how long was waited for it in vain
			took = append(took, s.ended.Sub(s.sent))
		}
		if s.cached() {
			f.cached++
		}
		f.hear(r.read(s))
	}
	if len(took) > 0 {
		slices.Sort(took)
		f.latency, f.usual, f.least = took[len(took)*99/100], took[len(took)/2], took[0]
	}
	return f
}

// hear keeps what the header fields of an answer state about the limit.
func (f *findings) hear(r signal.Reading) {
	if r.Verdict == pace.Throttled {
		f.wait = max(f.wait, r.After.V)
	}
	policies := r.Policies
	if policies == nil && (r.Limit.OK || r.Window.OK || r.Remaining.OK) {
		policies = []signal.Policy{{Unit: "requests", Limit: r.Limit, Window: r.Window, Burst: r.Burst, Remaining: r.Remaining}}
	}
	if len(policies) > 0 {
		f.told = policies
	}
}

// barred reports whether every request was refused, which says nothing of how many may pass.
func (f *findings) barred() bool { return f.Used > 0 && f.Refused == f.Used }

// limiter is the likeliest.
func (f *findings) limiter() fit.Candidate { return f.Candidates[0] }

// report writes what was found, and the error of not having found it.
func (f *findings) report(o *options, stdout io.Writer) error {
	write := f.write
	switch {
	case o.json:
		write = f.writeJSON
	case o.scenario == outfile.Dash:
		write = f.writeScenario
	case o.log == outfile.Dash:
		write = f.writeLog
	}
	if err := write(stdout); err != nil {
		return err
	}
	if o.scenario != "" && o.scenario != outfile.Dash {
		if err := outfile.Write(o.scenario, f.writeScenario); err != nil {
			return exit.Failf("find: -scenario: %v", err)
		}
	}
	if !f.Decided {
		return exit.Assertion("find: not identified: " + f.undecided())
	}
	return nil
}

// undecided is why not.
func (f *findings) undecided() string {
	if f.ended != "" {
		return f.Why + "; it ended by " + f.ended
	}
	return f.Why
}

// write writes it for people.
func (f *findings) write(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%s%s\n", table.Fill(name, 12), words.OneLine(fmt.Sprintf(format, args...)))
	}
	best, name := f.limiter(), "limiter"
	if !f.Decided {
		name = "likeliest"
	}
	line(name, "%v", best.Model)
	for _, p := range f.parameters() {
		line(p.name, "%s", p.text())
	}
	line("seen", "%s", f.sums())
	for _, p := range f.told {
		line("told", "%s", toldText(p))
	}
	for _, n := range f.notes() {
		line("note", "%s", n)
	}
	if rule := f.rule(); rule != "" {
		line("rule", "%s", rule)
	}
	line("caller", "%s", f.code())
	b.WriteByte('\n')
	f.writeCandidates(&b)
	if !f.Decided {
		b.WriteString("\n" + words.Fold(f.doubt(), 90) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCandidates writes a line for each candidate: how much less likely it is
// than the first, and its share.
func (f *findings) writeCandidates(b *strings.Builder) {
	left := len("candidate")
	for _, c := range f.Candidates {
		left = max(left, utf8.RuneCountInString(c.Model.String()))
	}
	table.WriteLine(b, table.Fill("candidate", left)+"  ln(likelihood)    share")
	for _, c := range f.Candidates {
		table.WriteLine(b, table.Fill(c.Model.String(), left)+"  "+table.Pad(likelihoodText(c.LogLikelihood), 14)+"  "+table.Pad(shareText(c.Share), 7))
	}
}

func likelihoodText(x float64) string { return fmt.Sprintf("%.1f", x) }

// shareText is a probability, in percent.
func shareText(p float64) string {
	switch {
	case p > 0 && p < 1e-4:
		return "<0.01%"
	case p < 1 && p > 0.9999:
		return ">99.99%"
	}
	return words.Number(math.Round(p*1e4)/100) + "%"
}

// sums are how many requests there were, and how they were answered.
func (f *findings) sums() string {
	n, answers := 0, []string{}
	for _, status := range slices.Sorted(maps.Keys(f.statuses)) {
		n += f.statuses[status]
		name := "without answer"
		if status > 0 {
			name = strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
		}
		answers = append(answers, fmt.Sprintf("%s × %s", words.Whole(int64(f.statuses[status])), name))
	}
	return fmt.Sprintf("%s in %s, %s refused: %s", words.Plural(n, "request", "requests"), brief(f.length), words.Whole(int64(f.Refused)), strings.Join(answers, ", "))
}

// brief writes a duration in three digits.
func brief(d time.Duration) string {
	unit := time.Duration(1)
	for unit <= d/1000 { // unit*1000 may be too much
		unit *= 10
	}
	return words.Short(d.Round(unit))
}

// company says that other callers use the limit, and what follows.
func (f *findings) company() string {
	text := "others use the same limit"
	if f.Unexplained > 0 {
		text = fmt.Sprintf("%s not explained by these requests alone: %s", words.Plural(f.Unexplained, "answer is", "answers are"), text)
	}
	if f.limiter().Kind == fit.TokenBucket {
		text += ", and the rate is what they leave"
	}
	return text + "; the kind is less sure than that of a limit of one's own: run it again"
}

// notes are what a reader must know before using the result.
func (f *findings) notes() (notes []string) {
	if f.unchosen != "" {
		notes = append(notes, f.unchosen)
	}
	switch {
	case f.barred():
		notes = append(notes, "nothing was served: what refuses may be no rate limit, or one that was used up before; run it again when a request is served")
	case f.Shared:
		notes = append(notes, f.company())
	}
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed} {
		if n := f.statuses[status]; n > 0 && n*2 > f.Used {
			notes = append(notes, fmt.Sprintf("most answers are %d: what is limited may be another path or caller", status))
		}
	}
	if f.cached*2 > len(f.seen) {
		notes = append(notes, fmt.Sprintf("%s came from a cache (Age above 0) and say nothing about the limit: ask for what is not cached", words.Plural(f.cached, "answer", "answers")))
	}
	if f.limiter().Kind == fit.Unlimited && f.Used > 0 {
		notes = append(notes, "nothing was refused: a limit above what was sent stays hidden")
	}
	return notes
}

// parameter is one of a limiter.
type parameter struct {
	name, unit string
	value      float64
	in         fit.Interval
	whole      bool // it counts requests
}

// parameters are those that the kind has.
func (f *findings) parameters() (all []parameter) {
	c := f.limiter()
	unit, scale := perUnit(c.Rate)
	rate := parameter{"rate", unit, c.Rate * scale, fit.Interval{Low: c.RateIn.Low * scale, High: c.RateIn.High * scale}, false}
	switch c.Kind {
	case fit.TokenBucket, fit.Delay:
		return []parameter{rate, {"burst", "", c.Burst, c.BurstIn, true}}
	case fit.FixedWindow, fit.SlidingLog, fit.SlidingCounter:
		all = []parameter{{"count", "", c.Count, c.CountIn, true}, {"period", "s", c.Period.Seconds(), c.PeriodIn, false}}
		if c.Kind != fit.SlidingLog && !c.FromFirst {
			m := f.rounded()
			all = append(all, parameter{"phase", "s after a multiple of " + words.Lasting(m.Period) + " since 1970, by this machine's clock", m.Phase.Seconds(), fit.Interval{}, false})
		}
	case fit.Concurrency:
		return []parameter{{"in flight", "", float64(c.InFlight), c.InFlightIn, true}}
	}
	return all
}

// perUnit is the unit of time in which a rate is at least one.
func perUnit(rate float64) (unit string, seconds float64) {
	switch {
	case rate >= 1:
		return "a second", 1
	case rate*60 >= 1:
		return "a minute", 60
	}
	return "an hour", 3600
}

func (p parameter) text() string {
	text := strings.TrimSpace(table.Figure(p.value) + " " + p.unit)
	if p.value == math.Trunc(p.value) && p.value < 1e15 {
		text = strings.TrimSpace(words.Whole(int64(p.value)) + " " + p.unit)
	}
	if p.in == (fit.Interval{}) {
		return text
	}
	low, high := p.in.Low, p.in.High
	if p.whole && p.value == math.Trunc(p.value) { // no part of a request is counted
		low, high = min(math.Ceil(low), p.value), max(math.Floor(high), p.value)
	}
	return fmt.Sprintf("%s  (95%%: %s to %s)", text, end(low), end(high))
}

// end writes an end of an interval, with four digits or all whole ones.
func end(x float64) string {
	if x >= 1000 {
		return words.Whole(int64(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// printed is an end of an interval as end writes it.
func printed(x float64) float64 {
	if x >= 1000 {
		return math.Round(x)
	}
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // it is a number
	return y
}

// toldText is a limit that header fields state.
func toldText(p signal.Policy) string {
	var text []string
	if p.Limit.OK {
		text = append(text, "limit "+words.Whole(p.Limit.V))
	}
	if p.Burst.OK {
		text = append(text, "burst "+words.Whole(p.Burst.V))
	}
	if p.Window.OK {
		text = append(text, "window "+words.Lasting(p.Window.V))
	}
	if p.Remaining.OK {
		text = append(text, words.Whole(p.Remaining.V)+" "+p.Unit+" left at the end")
	}
	return strings.TrimPrefix(p.Name+": "+strings.Join(text, ", "), ": ")
}
