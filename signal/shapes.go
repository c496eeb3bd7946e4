package signal

import (
	"math"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// This file reads what fields and paths alone cannot say: several numbers in
// one field. Each shape has its reason beside it.

// readShape adds what a field of a shape says.
func (r *reader) readShape(l *limits, text string) {
	switch l.Shape {
	case "used/limit":
		r.readUsed(l, text)
	case "pairs":
		r.readPairs(l, text)
	case "azure":
		r.readAzure(l, text)
	case "windows":
		r.readWindows(l, text)
	case "usage":
		r.readUsage(l)
	case "shopify":
		r.readShopify(l)
	}
}

// shaped adds a policy that a shape has made.
func (r *reader) shaped(l *limits, p Policy) {
	p.Unit = l.Unit
	if p.Unit == "" {
		p.Unit = requests
	}
	if p.Name == "" {
		p.Name = l.Name
	}
	if l.Window > 0 {
		p.Window = pace.Some(time.Duration(l.Window) * time.Second)
	}
	r.take(l, p, l.From)
	if r.notes != nil {
		r.notePolicy(p, l.From)
	}
}

// readUsed reads Shopify's `32/40` and Salesforce's
// `api-usage=10018/100000; per-app-api-usage=17/250(appName=sample-app)`.
func (r *reader) readUsed(l *limits, text string) {
	text, _, _ = strings.Cut(text, ";")
	if _, value, ok := strings.Cut(text, "="); ok {
		text = value
	}
	used, size, _ := strings.Cut(text, "/")
	n, most := count(strings.TrimSpace(used)), count(strings.TrimSpace(size))
	if n.OK && most.OK {
		r.shaped(l, Policy{Limit: most, Remaining: pace.Some(max(most.V-n.V, 0))})
	}
}

// readPairs reads Zendesk's `total=100; remaining=99; resets=41`.
func (r *reader) readPairs(l *limits, text string) {
	var p Policy
	for pair := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		switch key {
		case "total":
			p.Limit = count(value)
		case "remaining":
			p.Remaining = count(value)
		case "resets":
			p.Reset = seconds(value)
		}
	}
	if p.complete(nil) {
		r.shaped(l, p)
	}
}

// readAzure reads Azure's `Microsoft.Compute/GetVMScaleSet3Min;197,…30Min;1297`,
// where the windows are in the names.
func (r *reader) readAzure(l *limits, text string) {
	if len(text) > maxField {
		return
	}
	for item := range strings.SplitSeq(text, ",") {
		name, left, _ := strings.Cut(item, ";")
		name = strings.TrimSpace(name)
		p := Policy{Name: cut(name), Remaining: count(strings.TrimSpace(left))}
		if !p.Remaining.OK || name == "" {
			continue
		}
		if minutes := minutesOf(name); minutes > 0 {
			p.Window = pace.Some(time.Duration(minutes) * time.Minute)
		}
		r.shaped(l, p)
	}
}

// minutesOf is the number before Min at the end of a name, up to 999.
func minutesOf(name string) (minutes int) {
	digits, ok := strings.CutSuffix(name, "Min")
	for place := 1; ok && place <= 100 && digits != ""; place *= 10 {
		c := digits[len(digits)-1]
		if c < '0' || c > '9' {
			break
		}
		minutes += place * int(c-'0')
		digits = digits[:len(digits)-1]
	}
	return minutes
}

// readUsage reads Meta's percentages: several of them, of which the greatest
// counts, and in the form for businesses minutes to wait, which are worth
// more than a reset as the quota itself is not known.
func (r *reader) readUsage(l *limits) {
	text := jsonText(r.field(l.From))
	if len(text) > maxField {
		return
	}
	most := pace.Opt[int64]{}
	for _, key := range [...]string{"call_count", "total_time", "total_cputime", "acc_id_util_pct"} {
		for _, path := range [...]string{key, "*.*." + key} {
			if i, ok := text.find(0, path); ok {
				if n := count(text.scalar(i)); n.OK && (!most.OK || n.V > most.V) {
					most = n
				}
			}
		}
	}
	if !most.OK {
		return
	}
	p := Policy{Limit: pace.Some(int64(100)), Remaining: pace.Some(max(100-most.V, 0))}
	for _, u := range [...]struct{ path, is string }{
		{"*.*.estimated_time_to_regain_access", "minutes"}, {"reset_time_duration", "seconds"},
	} {
		if i, ok := text.find(0, u.path); ok {
			if d := r.span(text.scalar(i), u.is); d.V > 0 {
				p.Reset = d
				r.exhausted(d, l.From)
			}
		}
	}
	r.shaped(l, p)
}

// readShopify reads the cost of a GraphQL query:
//
//	wait = (requested - available) / restored a second
//
// which is what a refused query lacks, long before all of it is restored.
func (r *reader) readShopify(l *limits) {
	path := strings.TrimPrefix(l.From, "body ")
	most := count(lookup(r.body, path+".throttleStatus.maximumAvailable"))
	left := count(lookup(r.body, path+".throttleStatus.currentlyAvailable"))
	asked := count(lookup(r.body, path+".requestedQueryCost"))
	r.Cost = count(lookup(r.body, path+".actualQueryCost"))
	if !most.OK || !left.OK {
		return
	}
	p := Policy{Limit: most, Remaining: left}
	rate, ok := decimal(lookup(r.body, path+".throttleStatus.restoreRate"))
	if ok && rate > 0 {
		if asked.OK && asked.V > left.V {
			lacks := nanoseconds(math.Ceil(float64(asked.V-left.V) / rate * 1e9))
			r.exhausted(pace.Some(lacks), l.From)
		}
		p.Reset = pace.Some(nanoseconds(math.Ceil(float64(max(most.V-left.V, 0)) / rate * 1e9)))
	}
	r.shaped(l, p)
}
