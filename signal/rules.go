package signal

import (
	"strings"

	"github.com/throttle-go/throttle/pace"
)

// apply does what a rule says, if it holds.
func (r *reader) apply(u *rule) {
	if u.Statuses == nil && r.status < 400 || u.Statuses != nil && !has(u.Statuses, r.status) {
		return
	}
	if u.Empty {
		if r.none {
			r.follow(u, r.limitsBy, "")
		}
		return
	}
	for _, from := range u.From {
		text := u.trim(r.text(from))
		if text == "" {
			continue
		}
		if u.holds(text) {
			r.follow(u, from, text)
		}
		return
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
	if u.Wait > 0 && r.dueSeconds == 0 {
		r.dueSeconds = u.Wait
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
// "fragment" a URL, of all before its fragment; "metric", "subject" and
// "description" the details of a gRPC status, of all else.
func (u *rule) trim(text string) string {
	switch u.Trim {
	case "code":
		text, _, _ = strings.Cut(text, ":")
		fallthrough
	case "fragment":
		text = text[strings.LastIndexByte(text, '#')+1:]
	case "subject":
		text = violation(text, 1)
	case "description":
		text = violation(text, 2)
	case "metric":
		text = violation(text, 4)
	}
	return text
}

// cut is text within the bound of a reason or a name, at the end of a letter.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}
