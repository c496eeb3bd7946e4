package signal

import (
	"slices"
	"strings"
	"time"
)

// MaxBody bounds the bytes of a body that are read; the rest is ignored. Callers
// need not read more.
const MaxBody = 64 << 10

// Dialect reads what one vendor says about its limits. It does not change, is
// safe for concurrent use, and comes from [For] or [Named]; docs/dialects.md
// lists what each one reads.
type Dialect struct{ spec spec }

// spec is a dialect as data. The specs are the files in dialects/, and
// dialects_data.go is made of them by 'go test -run Data -update'. Names of
// fields and paths into a body are alike: "body a.*.b" is a path, in which *
// stands for any key or element and [] for any element, and "body <tag>" is the text of an XML
// element.
type spec struct {
	// Name is what Named knows it by, Title what people call it.
	Name, Title string
	// Hosts are exact names, or *.example.com for all below one.
	Hosts []string
	// Throttles are the statuses that refuse for load. If nil, 429 and 503.
	Throttles []int
	// Plain says that its limits answer 503 and nothing more.
	Plain bool
	// Bodies are the statuses whose body says something. 4 and 5 stand for
	// all from 400 and from 500.
	Bodies []int
	// Drafts says to read the RateLimit and RateLimit-Policy fields; Scope is what they are
	// about.
	Drafts bool
	Scope  string
	// First says that the first of the drafts and Limits that says something
	// is all that is read, with those Limits that are Beside.
	First  bool
	Limits []limits
	// Waits are where a wait may stand, first come first. If nil, Retry-After.
	Waits []wait
	Rules []rule
	// Splits says that there is one of each named scope for every first id in
	// the path.
	Splits bool
	// Notes are what a reader of the docs should know. Unconfirmed notes tell
	// what was not found in the vendor's own words.
	Notes, Unconfirmed []string
}

// limits are where one limit is stated.
type limits struct {
	// Name is that of the policy; NameFrom a field that holds it.
	Name, NameFrom string
	// Beside says to read it though First has found another before it.
	Beside bool
	// Unit is what is counted. If empty, requests. Zero is what is counted where the
	// limit is stated as 0, if that is something else; its reset is not read.
	Unit, Zero string
	// Limit, Remaining, Used, Reset and Cost are where the numbers are.
	Limit, Remaining, Used, Reset, Cost string
	// Is is the form of the reset: one of forms.
	Is string
	// Max and Window (seconds) are what the vendor documents and the answers
	// do not say; Windows are those of numbers in a list, in their order.
	Max, Window int64
	Windows     []int64
	// WindowFrom is a field that holds the window, in the form WindowIs.
	WindowFrom, WindowIs string
	// Aligned says that windows begin at whole multiples of their length in
	// UTC, as a day at midnight does: the reset need not be stated.
	Aligned bool
	// Refills says that the reset is when all of it is back, as of a token bucket, which
	// gives a part of it back all the time.
	Refills bool
	// From is a field that says it all, in the shape named Shape.
	From, Shape string
	// Scope is what the limit is about, and its name is that of the scope.
	Scope string
}

// wait is where a wait may stand, and its form.
type wait struct{ From, Is string }

// rule is something to look for. If the text at one of From is one of Is,
// begins, ends or contains as stated, or is present if nothing is stated, the
// rule holds, and says what no rule before it has said. Without From, the
// status alone is enough.
type rule struct {
	// Statuses are those for which it may hold. If nil, all from 400.
	Statuses []int
	From     []string
	// Trim says what to free the text of first: see trim.
	Trim                  string
	Is, Begins, Ends, Has []string
	// Empty makes it hold when nothing remains of some limit instead.
	Empty bool

	Verdict     string // throttled, failed or served
	Permanent   string // yes or no
	Concurrency bool
	Retryable   bool
	Scope       string
	// Wait is how long to wait, in seconds, if the answer does not say. Until is
	// until when: "midnight" in UTC, or nothing.
	Wait  int64
	Until string
	// As says what the text is: the reason if empty, "name" for the name of
	// the scope, "nothing".
	As string
}

// For returns the dialect of a host: the preset that lists the host exactly or,
// failing that, by its end; otherwise the general one, which knows the standards
// and guesses. A port is ignored. It never returns nil.
func For(host string) *Dialect {
	host = strings.ToLower(host)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	host = strings.TrimSuffix(host, ".")
	found := general
	for _, d := range dialects {
		switch exactly, below := d.speaksAt(host); {
		case exactly:
			return d
		case below && found == general:
			found = d
		}
	}
	return found
}

// speaksAt reports whether a host is one of the preset's, or below one.
func (d *Dialect) speaksAt(host string) (exactly, below bool) {
	for _, h := range d.spec.Hosts {
		if h == host {
			return true, false
		}
		end, wild := strings.CutPrefix(h, "*")
		below = below || wild && strings.HasSuffix(host, end) && len(host) > len(end)
	}
	return false, below
}

// Named returns the dialect of that name, such as github or kong; ok is false if
// there is none. "general" is the one for hosts that no preset lists.
func Named(name string) (d *Dialect, ok bool) {
	for _, d := range dialects {
		if d.spec.Name == name {
			return d, true
		}
	}
	return nil, false
}

// Names returns the names of all dialects, in order.
func Names() (names []string) {
	for _, d := range dialects {
		names = append(names, d.spec.Name)
	}
	return names
}

var general = mustNamed("general")

func mustNamed(name string) *Dialect {
	d, _ := Named(name)
	return d
}

// Name returns the dialect's name.
func (d *Dialect) Name() string { return d.spec.Name }

// Splits reports whether the server counts each scope that it names separately for
// each object, which is the first id in the path of a request.
func (d *Dialect) Splits() bool { return d.spec.Splits }

// WantsBody reports whether Read uses the body of an answer with that status.
// MaxBody bytes are enough.
func (d *Dialect) WantsBody(status int) bool {
	return slices.Contains(d.spec.Bodies, status) ||
		status >= 400 && status < 600 && slices.Contains(d.spec.Bodies, status/100)
}

// Read reads an answer that arrived at now. field returns the value of a header
// field by its name, in any case, or an empty string; the lines of a RateLimit,
// RateLimit-Policy or Retry-After field are joined by commas. body is the beginning
// of the body, if it is known; it is read if WantsBody or if it is the problem document
// (RFC 9457) of a refusal, and the result does not keep it. An answer that has none
// of the fields costs no allocation.
//
// Malformed fields are ignored, absurd waits are capped ([MaxAfter]), and dates
// count from the Date field, so that the difference between the two clocks does
// not matter. An answer from a cache (Age above zero) is about the past: its
// limits are ignored, and its wait has run for as long as its Age.
//
// The wait of a refusal is the first of these that exists: the fields for waits
// (milliseconds before Retry-After before the body), the longest reset of the
// limits that are used up, the wait that the vendor documents.
func (d *Dialect) Read(status int, field func(name string) string, body []byte, now time.Time) Reading {
	r := reader{d: d, status: status, field: field, now: now, whole: body}
	r.read()
	return r.Reading
}
