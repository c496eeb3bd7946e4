package throttlepage

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// explained is a row in words: of each cell its figure, and what that means.
type explained struct {
	Rate     cell `json:"rate"`
	InFlight cell `json:"in_flight"`
	Waiting  cell `json:"waiting"`
	Said     cell `json:"said"`
}

// cell is a figure and its sentence.
type cell struct {
	Figure string `json:"figure"`
	Text   string `json:"text"`
}

// sources say where a rate is known from.
var sources = map[string]string{
	pace.SourceNone.String():     "No sign of a limit yet, and no rate is set.",
	pace.SourceSet.String():      "The program has set it.",
	pace.SourceRestored.String(): "An earlier process had learnt it.",
	pace.SourceRefusals.String(): "Learnt from what was served and refused.",
	pace.SourceStated.String():   "From what the server states of its limit.",
}

// explain puts r into words, as of now.
func (r *row) explain(now time.Time) {
	r.Explained = explained{r.rateCell(now), r.flightCell(), r.waitingCell(), r.saidCell(now)}
}

func (r *row) rateCell(now time.Time) cell {
	c := cell{"not paced", sources[r.Source]}
	if r.Rate > 0 {
		c.Figure = perTime(r.Rate)
	}
	if r.Until != nil {
		why := ""
		if r.Own != nil && r.Own.Said.asks() {
			why = ", as the server asked"
		}
		c.Text = "Nothing starts for " + lasting(r.Until.Sub(now)) + why + ". Then " + c.Figure + ". " + c.Text
		c.Figure = "stopped"
	}
	return c
}

func (r *row) flightCell() cell {
	switch n := whole(int64(r.InFlight)); {
	case r.MaxInFlight == 0:
		return cell{n, "No bound."}
	case r.InFlight >= r.MaxInFlight:
		return cell{n + " of " + whole(int64(r.MaxInFlight)), "The next starts when one ends."}
	default:
		return cell{n + " of " + whole(int64(r.MaxInFlight)), "More may start."}
	}
}

func (r *row) waitingCell() cell {
	c := cell{Figure: whole(int64(r.Waiting))}
	if r.Own == nil {
		if r.Waiting > 0 {
			c.Text = "In line, and subject to this limit."
		}
		return c
	}
	var all []string
	if r.Own.Oldest != nil {
		all = append(all, "The oldest in line for "+lasting(span(*r.Own.Oldest))+".")
	}
	if r.Own.NextRetry != nil {
		all = append(all, counted(int64(r.Own.Resting), " rests", " rest")+" before a retry, the first for "+lasting(span(*r.Own.NextRetry))+" more.")
	}
	switch {
	case r.Own.Next == nil:
		all = append(all, "How long a new call would wait is not known.")
	case *r.Own.Next <= 0:
		all = append(all, "A new call would start at once.")
	default:
		all = append(all, "A new call would start in about "+lasting(span(*r.Own.Next))+".")
	}
	c.Text = strings.Join(all, " ")
	return c
}

func (r *row) saidCell(now time.Time) cell {
	if r.Own != nil && r.Own.Said != nil {
		return r.Own.Said.cell(now)
	}
	if r.Throttled == nil && r.Remaining == nil {
		return cell{"nothing yet", ""}
	}
	c := cell{Figure: "served"}
	var all []string
	if r.Throttled != nil {
		c.Figure = refused(now.Sub(*r.Throttled))
		all = append(all, "Last refused "+lasting(now.Sub(*r.Throttled))+" ago.")
	}
	if r.Remaining != nil {
		all = append(all, upper(remain(r.Remaining, r.Limit)+"."))
	}
	c.Text = strings.Join(all, " ")
	return c
}

// cell is x in words.
func (x *said) cell(now time.Time) cell {
	c := cell{Figure: x.Verdict}
	if x.Verdict == pace.Throttled.String() {
		c.Figure = refused(now.Sub(x.At))
	}
	var all []string
	if x.After != nil {
		all = append(all, "come back after "+lasting(span(*x.After)))
	}
	if x.Limit != nil {
		text := whole(*x.Limit) + " allowed"
		if x.Window != nil {
			text += " in " + lasting(span(*x.Window))
		}
		all = append(all, text)
	}
	if x.Remaining != nil {
		most := x.Burst
		if most == nil {
			most = x.Limit
		}
		all = append(all, remain(x.Remaining, most))
	}
	if x.Reset != nil {
		all = append(all, "more in "+lasting(span(*x.Reset)))
	}
	if x.Share != nil {
		all = append(all, "fair share "+perTime(*x.Share))
	}
	c.Text = upper(lasting(now.Sub(x.At)) + " ago")
	if len(all) > 0 {
		c.Text += ": " + strings.Join(all, ", ")
	}
	c.Text += "."
	return c
}

// refused says that so long ago a request was: only news is marked.
func refused(ago time.Duration) string {
	if ago > time.Minute {
		return "refused before"
	}
	return "refused"
}

func remain(n, of *int64) string {
	if of == nil {
		return whole(*n) + " remain"
	}
	return whole(*n) + " of " + whole(*of) + " remain"
}

// Text is c in words.
func (c *calls) Text() string {
	text := fmt.Sprintf("%s: %s served, %s refused, %s failed, %s ignored. %s given up.", counted(c.Tries, " try", " tries"),
		whole(c.Served), whole(c.Throttled), whole(c.Failed), whole(c.Ignored), counted(c.GaveUp, " call", " calls"))
	if c.Tries > 0 {
		text += " A try waited " + lasting(span(c.Waited/float64(c.Tries))) + " on average."
	}
	return text
}

// Text says how many wait in q, and for how long.
func (q queue) Text() string {
	return whole(int64(q.Waiting)) + ", the oldest for " + lasting(span(q.Oldest))
}

// Listed are the queues, where there is more to say than how many wait.
func (r row) Listed() []queue {
	if r.Own == nil || len(r.Own.Queues) == 1 && r.Own.Queues[0].Key == "" && r.Own.Queues[0].Priority == "normal" {
		return nil
	}
	return r.Own.Queues
}

// perTime is a rate, in the unit in which it is at least one, or an hour.
func perTime(perSecond float64) string {
	switch {
	case perSecond >= 1 || perSecond <= 0:
		return digits(perSecond) + "/s"
	case perSecond >= 1.0/60:
		return digits(perSecond*60) + "/min"
	}
	return digits(perSecond*3600) + "/h"
}

// digits is x with three of them.
func digits(x float64) string {
	if x >= 1e15 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	if x >= 999.5 {
		return whole(int64(x + 0.5))
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// whole is n with commas.
func whole(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// counted is n of something, in the singular or the plural.
func counted(n int64, one, more string) string {
	if n == 1 {
		return whole(n) + one
	}
	return whole(n) + more
}

// span is a length of time in seconds, saturating.
func span(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), 9e9) * float64(time.Second))
}

// lasting is a length of time by its largest units, rounded.
func lasting(d time.Duration) string {
	switch d = max(d, 0); {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return "less than 1 ms"
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond)/time.Millisecond)
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute-time.Second/2:
		return fmt.Sprintf("%d s", d.Round(time.Second)/time.Second)
	case d < 2*time.Hour-time.Minute/2:
		return fmt.Sprintf("%d min", d.Round(time.Minute)/time.Minute)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
