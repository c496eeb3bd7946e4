package signal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shapes are the shapes of readShape, and what each is called in the docs.
var shapes = map[string]string{
	"used/limit": "used/limit, perhaps behind a name and =",
	"pairs":      "total=, remaining=, resets= (seconds)",
	"azure":      "name;remaining, by commas, windows in the names",
	"usage":      "JSON of percentages used, minutes to wait",
	"windows":    "how many:seconds, by commas; used alike beside it",
	"shopify":    "requested, actual, available and restored a second",
}

const docsIntro = `# Dialects: how servers say "slow down"

How package ` + "`signal`" + ` reads the rate limit headers and bodies of each vendor: 429,
Retry-After, RateLimit fields and the vendor's own. This page is made of the same files as
the code (` + "`signal/dialects/*.json`" + `); each row has a recorded answer in
` + "`signal/testdata`" + ` and its reading beside it. To see what an answer says:

    curl -si https://api.github.com/rate_limit | throttle explain -host api.github.com

A preset is chosen by the host. Where the host says nothing, as with a gateway
of your own, name it:

    d := signal.For("api.github.com")      // by host; never nil
    d, ok := signal.Named("kong")          // by name
    r := d.Read(status, header.Get, body, now)

    throttle explain -preset kong < answer.txt

## What holds for all

- 429 and 503 are throttled, unless the preset says otherwise; 500 and above
  failed; all other answers were served, whatever they say.
- A 503 that asks for no wait and says nothing of a limit may be a failure like any
  other (Unsure): up to one in sixteen requests does not slow the others down, nor do more that
  come [whatever the rate](control.md#retry-after). The page of nginx's own 503, as of limit_req and
  limit_conn, is a refusal; for other limiters that answer so, name the preset nginx, or they refuse
  up to six in a hundred more, and a crowd of their callers more than that.
- The wait is the first of these that exists: a field of milliseconds, Retry-After,
  a wait in the body, the longest reset of the limits that are used up, the wait
  that the vendor documents.
- Retry-After is read in every form: seconds, whole or not, a Unix time in seconds
  or milliseconds (a number above 5×10^8, too large for a wait in seconds), an
  HTTP date, the date of an email, RFC 3339, a duration such as 1m30s. Of several, in
  lines of their own or behind commas, the longest counts.
- A wait above a day is read as one hour: most are mistakes, and one request an
  hour does no harm where one was meant. A wait or a reset above a year (366 days),
  a wait below zero, a date a day or more in the past, and text that is neither
  number nor time are ignored: the caller's own backoff decides. A reset above a day is read
  as a day, and one that is a day off or more is probed after an hour.
- A limit of more than an hour that is used up and does not say when it resets is
  probed after 1/24 of its window, an hour at most: a day's quota once an hour.
- RateLimit and RateLimit-Policy, drafts 07 to 10, are read of every vendor: before its own
  fields where its table has them, otherwise where these say nothing.
- One field may hold several limits (100;w=60, 1000;w=3600), each of which is read.
- X-Should-Retry and Stripe-Should-Retry: false means not to retry; true, that another
  try may succeed, whatever the status.
- Dates and Unix times count from the Date of the answer. Limits in an answer
  from a cache (Age above zero) are ignored, and its wait has run since.
- Malformed fields are ignored; 'throttle explain' says so. A number that cannot
  be meant in the preset's unit (Unix time 30, seconds for 15 years) is guessed.
- Bodies are read only for the statuses named, and 64 KiB of them at most; a
  Transport reads those of errors, and of answers to GraphQL, by itself.
- A refusal is final where its body is a problem document (RFC 9457) with "retryable":
  false, whatever the preset reads of bodies.
- The general dialect knows an error that throttles by a code in its body, under
  400 and 403 as well as 429: rate_limited, TooManyRequests, THROTTLED and similar, in
  any case. An error without such a code is ordinary, whatever its message says
  and even if nothing remains.
- A quota that ends with a day, a month or an account's money is final where the
  answer names it so (dailyLimitExceeded, insufficient_quota): no wait helps.
- Requests pace; limits counted in other units are reported beside them, and decide
  on the wait when they are used up.
- A refusal inside a GraphQL answer that holds data too is final: part of it ran.
- Permanent means not to retry; concurrency, that a concurrency limit was exceeded: fewer
  requests at once pass. So does a refusal in which a limit with the unit
  concurrent-requests (the draft's qu) is used up, and none that counts requests.

`

// TestDocsAreUpToDate holds docs/dialects.md equal to what the data says.
func TestDocsAreUpToDate(t *testing.T) {
	specs := specsOf(t)
	var b strings.Builder
	b.WriteString(docsIntro)
	b.WriteString("## The presets\n\n| vendor | preset | hosts | counts | scopes |\n|---|---|---|---|---|\n")
	for _, s := range specs {
		hosts := "by name only"
		if s.Hosts != nil {
			hosts = "`" + strings.Join(s.Hosts, "`, `") + "`"
		} else if s.Name == "general" {
			hosts = "any"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | `%s` | %s | %s | %s |\n", s.Title, s.Name, s.Name, hosts, units(s), scopesOf(s))
	}
	for _, s := range specs {
		section(&b, s)
	}
	checkFile(t, "../docs/dialects.md", b.String())
}

// units are the units that a dialect counts in.
func units(s spec) string {
	var all []string
	add := func(unit string) {
		if unit == "" {
			unit = requests
		}
		if !slices.Contains(all, unit) {
			all = append(all, unit)
		}
	}
	if s.Drafts {
		add("")
		add("what it says")
	}
	for _, l := range s.Limits {
		add(l.Unit)
	}
	if all == nil {
		return "-"
	}
	return strings.Join(all, ", ")
}

func scopesOf(s spec) string {
	var all []string
	add := func(scope string) {
		if scope != "" && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	for _, l := range s.Limits {
		add(l.Scope)
	}
	for _, u := range s.Rules {
		add(u.Scope)
	}
	if all == nil {
		return "-"
	}
	return strings.Join(all, ", ")
}

// section is what one preset reads.
func section(b *strings.Builder, s spec) {
	fmt.Fprintf(b, "\n<a id=\"%s\"></a>\n\n## %s (`%s`)\n\n", s.Name, s.Title, s.Name)
	for _, n := range s.Notes {
		fmt.Fprintf(b, "%s\n", n)
	}
	if s.Unconfirmed != nil {
		fmt.Fprintf(b, "Not confirmed by the vendor's own words: %s.\n", strings.Join(s.Unconfirmed, "; "))
	}
	if pages := pagesOf(s.Name); pages != nil {
		fmt.Fprintf(b, "Read from %s.\n", strings.Join(pages, ", "))
	}
	b.WriteString("\n| where | means | form and unit | scope |\n|---|---|---|---|\n")
	row := func(where, means, form, scope string) {
		for _, c := range []*string{&form, &scope} {
			if *c == "" {
				*c = "-"
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", where, means, form, scope)
	}
	if s.Throttles != nil {
		row("status "+numbers(s.Throttles), "refused for load", "", "")
	}
	waits := s.Waits
	if waits == nil {
		waits = standardWaits
	}
	for _, w := range waits {
		row(place(w.From), "the wait", formName(w.Is), "")
	}
	if s.Drafts {
		row(place("RateLimit")+", "+place("RateLimit-Policy"), "limits", "drafts 07 to 10; requests, or the unit it says", "")
	}
	for _, l := range s.Limits {
		limitRows(row, l)
	}
	for _, u := range s.Rules {
		ruleRow(row, u)
	}
}

// pagesOf are the pages that the answers of a dialect were read from.
func pagesOf(name string) (pages []string) {
	files, _ := filepath.Glob("testdata/" + name + "-*.txt")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), "\n# page: ")
		line, _, _ := strings.Cut(rest, "\n")
		url, when, ok := strings.Cut(line, " (read ")
		if p := "<" + url + "> (" + when; ok && !slices.Contains(pages, p) {
			pages = append(pages, p)
		}
	}
	return pages
}

func limitRows(row func(where, means, form, scope string), l limits) {
	name := "limit"
	if l.Name != "" {
		name += " " + l.Name
	}
	unit := l.Unit
	if unit == "" {
		unit = requests
	}
	window := ""
	if l.Window > 0 {
		window = fmt.Sprintf(", in %d s", l.Window)
	}
	if l.Windows != nil {
		window = fmt.Sprintf(", in %s s, side by side", numbers(l.Windows))
	}
	if l.Aligned {
		window += ", which begin at whole multiples in UTC"
	}
	if l.Max > 0 {
		window = fmt.Sprintf(", of %d%s as documented", l.Max, window)
	}
	if l.From != "" {
		row(place(l.From), name, shapes[l.Shape]+"; "+unit+window, l.Scope)
	}
	reset := "reset"
	if l.Refills {
		reset = "when all is back, bit by bit"
	}
	for _, f := range []struct{ from, means, form string }{
		{l.Limit, "how many", unit + window},
		{l.Remaining, "what remains", unit + window},
		{l.Used, "what is used", unit},
		{l.Reset, reset, formName(l.Is)},
		{l.WindowFrom, "window", formName(l.WindowIs)},
		{l.NameFrom, "name", "text"},
	} {
		if f.from != "" {
			row(place(f.from), name+": "+f.means, f.form, l.Scope)
		}
	}
}

func ruleRow(row func(where, means, form, scope string), u rule) {
	var means []string
	add := func(ok bool, text string) {
		if ok {
			means = append(means, text)
		}
	}
	add(u.Verdict != "", u.Verdict)
	add(u.Permanent == "yes", "permanent")
	add(u.Permanent == "no", "not permanent")
	add(u.Concurrency, "concurrency")
	add(u.Until == "midnight", "wait until midnight, UTC, unless stated")
	add(u.Wait > 0, fmt.Sprintf("wait %d s unless stated", u.Wait))
	add(u.As == "name", "name of the scope")
	add(len(means) == 0 && u.Scope == "", "reason")
	add(len(means) == 0, "the scope")
	var form []string
	for _, f := range []struct {
		how  string
		text []string
	}{{"", u.Is}, {"begins ", u.Begins}, {"ends ", u.Ends}, {"contains ", u.Has}} {
		if f.text != nil {
			form = append(form, f.how+"`"+strings.Join(f.text, "`, `")+"`")
		}
	}
	switch u.Trim {
	case "":
	case "word":
		form = append(form, "in any case, letters and digits alone")
	case "code":
		form = append(form, "without its namespace")
	case "fragment":
		form = append(form, "the fragment of a URL")
	default:
		form = append(form, "the "+u.Trim+" of a QuotaFailure")
	}
	where := "a limit that is used up"
	if u.From == nil && !u.Empty {
		where = "status " + numbers(u.Statuses)
	}
	if u.From != nil {
		var from []string
		for _, f := range u.From {
			from = append(from, place(f))
		}
		where = strings.Join(from, " or ")
	}
	if u.Statuses != nil && where != "status "+numbers(u.Statuses) {
		where += " with " + numbers(u.Statuses)
	}
	row(where, strings.Join(means, ", "), strings.Join(form, "; "), u.Scope)
}

// place is a field as its vendor would write it, or a path.
func place(from string) string {
	if path, ok := strings.CutPrefix(from, "body "); ok {
		return "body `" + path + "`"
	}
	return "`" + strings.ReplaceAll(strings.ReplaceAll(from, "Ratelimit", "RateLimit"), "-Ms-", "-MS-") + "`"
}

func formName(is string) string {
	for _, f := range forms {
		if f[0] == is {
			return f[1]
		}
	}
	return ""
}

// TestDataMakesSense: every word of the data is one that the code knows.
func TestDataMakesSense(t *testing.T) {
	hosts := map[string]string{}
	for _, d := range dialects {
		s := d.spec
		knows := func(what, word string, ok bool) {
			if !ok {
				t.Errorf("%s: %s %q is not known", s.Name, what, word)
			}
		}
		for _, w := range s.Waits {
			knows("form", w.Is, formName(w.Is) != "")
		}
		for _, l := range s.Limits {
			knows("form", l.Is, l.Reset == "" || formName(l.Is) != "")
			knows("shape", l.Shape, l.From == "" || shapes[l.Shape] != "")
			knows("scope", l.Scope, l.Scope == "" || scopeNamed(l.Scope) != ScopeUnknown)
			knows("form", l.WindowIs, l.WindowFrom == "" || formName(l.WindowIs) != "")
			knows("limit without a place", l.Name, l.From != "" || l.Limit+l.Remaining+l.Used+l.Reset != "")
		}
		for _, u := range s.Rules {
			knows("scope", u.Scope, u.Scope == "" || scopeNamed(u.Scope) != ScopeUnknown)
			knows("verdict", u.Verdict, slices.Contains([]string{"", "throttled", "failed", "served"}, u.Verdict))
			knows("permanent", u.Permanent, slices.Contains([]string{"", "yes", "no"}, u.Permanent))
			knows("as", u.As, slices.Contains([]string{"", "name", "nothing"}, u.As))
			knows("trim", u.Trim, slices.Contains([]string{"", "code", "fragment", "word", "metric", "subject", "description"}, u.Trim))
			knows("rule without a place", fmt.Sprint(u), !u.Empty || u.From == nil)
			knows("until", u.Until, u.Until == "" || u.Until == "midnight")
			knows("rule without a condition", fmt.Sprint(u), u.Empty || u.From != nil || u.Statuses != nil)
			for _, from := range u.From {
				status := 429
				if u.Statuses != nil {
					status = u.Statuses[0]
				}
				knows("body that is not wanted at", from, !strings.HasPrefix(from, "body ") || d.WantsBody(status) || d.WantsBody(400) || d.WantsBody(503) || d.WantsBody(529))
			}
		}
		for _, h := range s.Hosts {
			if other := hosts[h]; other != "" || h != strings.ToLower(h) {
				t.Errorf("%s: host %s, want lower case, and not that of %q too", s.Name, h, other)
			}
			hosts[h] = s.Name
			if got := For(strings.Replace(h, "*", "some.thing", 1)); got != d {
				t.Errorf("For(%s) = %s, want %s", h, got.Name(), s.Name)
			}
		}
		if got, ok := Named(s.Name); got != d || !ok {
			t.Errorf("Named(%s) = %v, %v", s.Name, got, ok)
		}
	}
	if n := Names(); len(n) != len(dialects) || n[len(n)-1] != "general" {
		t.Errorf("Names() = %q, want all, the general one last", n)
	}
}

func numbers[T int | int64](all []T) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ", ")
}
