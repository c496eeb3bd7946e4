package signal

import (
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// apply does what a rule says, if it holds.
func (r *reader) apply(u *rule) {
	if u.Statuses == nil && r.status < 400 || u.Statuses != nil && !has(u.Statuses, r.status) {
		return
	}
	switch {
	case u.Empty && r.none:
		r.follow(u, r.limitsBy, "")
	case u.From == nil && !u.Empty:
		r.follow(u, "status", "")
	}
	for _, from := range u.From {
		if word := r.word(u, from); word != "" {
			r.follow(u, from, word)
			return
		}
	}
}

// word is the text at a place by which a rule holds, or nothing. Of several values at
// a path into the body it is the first by which it does.
func (r *reader) word(u *rule, from string) (word string) {
	holds := func(text string) bool {
		if word = u.trim(text); word == "" || !u.holds(word) {
			word = ""
		} else if u.Trim == "word" {
			word = lastName(text)
		}
		return word != ""
	}
	path, ok := strings.CutPrefix(from, "body ")
	if !ok || path[0] == '<' {
		holds(r.text(from))
		return word
	}
	b := jsonText(r.body)
	b.each(0, path, func(at int) bool { return holds(b.scalar(at)) })
	return word
}

// readRetry reads the fields by which any vendor may say outright whether to ask
// again, where its own rules have not decided.
func (r *reader) readRetry() {
	if r.status < 400 {
		return
	}
	for _, from := range [...]string{"X-Should-Retry", "Stripe-Should-Retry"} {
		switch text := r.text(from); strings.ToLower(text) {
		case "true":
			r.follow(&rule{Retryable: true, As: "nothing"}, from, text)
		case "false":
			r.follow(&rule{Permanent: "yes", As: "nothing"}, from, text)
		}
	}
}

// holds reports whether a rule has something to say of a text.
func (u *rule) holds(text string) bool {
	if u.Is == nil && u.Begins == nil && u.Ends == nil && u.Has == nil {
		return true
	}
	for _, s := range u.Is {
		if text == s {
			return true
		}
	}
	for _, s := range u.Begins {
		if strings.HasPrefix(text, s) {
			return true
		}
	}
	for _, s := range u.Ends {
		if strings.HasSuffix(text, s) {
			return true
		}
	}
	for _, s := range u.Has {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// follow says what the rule says, where no earlier one has.
func (r *reader) follow(u *rule, from, text string) {
	var said []string
	if u.Verdict != "" && !r.judged {
		r.judged, r.verdictBy = true, from
		r.Verdict = verdictNamed(u.Verdict)
		said = append(said, u.Verdict)
	}
	if u.Permanent != "" && !r.sentenced {
		r.sentenced, r.Permanent = true, u.Permanent == "yes"
		r.finalBy = from
		said = append(said, map[bool]string{true: "do not ask again", false: "not permanent"}[r.Permanent])
	}
	if u.Concurrency && !r.Concurrency {
		r.Concurrency = true
		said = append(said, "too much in flight")
	}
	if u.Retryable && !r.Permanent {
		r.Retryable = true
		if r.Verdict == pace.Served && !r.judged {
			r.Verdict, r.verdictBy = pace.Failed, from
		}
		said = append(said, "another try may succeed")
	}
	if r.due == 0 {
		r.due = r.dueOf(u)
	}
	if u.Scope != "" && r.Scope == ScopeUnknown {
		r.Scope = scopeNamed(u.Scope)
		said = append(said, "scope "+u.Scope)
	}
	switch {
	case u.As == "" && r.Reason == "" && text != "":
		r.Reason = cut(text)
		said = append(said, "reason")
	case u.As == "name" && r.ScopeName == "":
		r.ScopeName = cut(text)
		said = append(said, "name of the scope")
	}
	if r.notes != nil && said != nil {
		if u.Empty {
			text = "nothing left"
		}
		r.noteText(from, text, strings.Join(said, ", "))
	}
}

// dueOf is how long a rule says to wait.
func (r *reader) dueOf(u *rule) time.Duration {
	if u.Until == "midnight" {
		return untilMultiple(r.clock(), day)
	}
	return time.Duration(u.Wait) * time.Second
}

// day is that of UTC, in which days have no other length.
const day = 24 * time.Hour

// untilMultiple is how long it takes until the next whole multiple of a window
// since 1970: midnight in UTC for a day, a full quarter for 15 minutes.
func untilMultiple(now time.Time, window time.Duration) time.Duration {
	since := time.Duration(now.UnixNano()) % window
	if since < 0 { // before 1970
		since += window
	}
	return window - since
}

func verdictNamed(name string) pace.Verdict {
	switch name {
	case "throttled":
		return pace.Throttled
	case "failed":
		return pace.Failed
	}
	return pace.Served
}

// trim frees a text of what stands around the word that counts: "code" an error
// code of AWS, of a namespace that ends in # and an address behind a colon;
// "fragment" a URL, of all before its fragment; "word" a name, of its case and
// of all but letters and digits, so that RATE_LIMITED and rateLimited are one; "metric", "subject" and
// "description" the details of a gRPC status, of all else.
func (u *rule) trim(text string) string {
	switch u.Trim {
	case "code":
		text, _, _ = strings.Cut(text, ":")
		fallthrough
	case "fragment":
		text = afterHash(text)
	case "word":
		text = wordOf(lastName(text))
	case "subject":
		text = violation(text, 1)
	case "description":
		text = violation(text, 2)
	case "metric":
		text = violation(text, 4)
	}
	return text
}

// afterHash is a text without a namespace or an address before a #.
func afterHash(text string) string { return text[strings.LastIndexByte(text, '#')+1:] }

// lastName is the name at the end of a URL, a URN or a namespace.
func lastName(text string) string {
	if strings.HasPrefix(text, "http") || strings.HasPrefix(text, "urn:") {
		return text[strings.LastIndexAny(text, "/:#")+1:]
	}
	return afterHash(text)
}

// wordOf is the letters and digits of a text, in lower case.
func wordOf(text string) string {
	word := make([]byte, 0, maxNumber)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			word = append(word, c)
		}
	}
	return string(word)
}

// cut is text within the bound of a reason or a name, at the end of a letter.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}
