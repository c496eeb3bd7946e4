package probe

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/signal"
)

// harFile is what a HAR (HTTP Archive 1.2) says about times and limits.
type harFile struct {
	Log struct {
		Entries []harEntry `json:"entries"`
	} `json:"log"`
}

type harEntry struct {
	Started time.Time `json:"startedDateTime"`
	Time    float64   `json:"time"` // milliseconds, as all times here; -1: not known
	Request struct {
		Method string `json:"method"`
		URL    string `json:"url"`
	} `json:"request"`
	Response struct {
		Status  int        `json:"status"`
		Headers []harField `json:"headers"`
		Content struct{ Text, Encoding string }
	} `json:"response"`
	Timings struct {
		Blocked, DNS, Connect, Send, Wait, Receive float64
	} `json:"timings"`
}

type harField struct{ Name, Value string }

// readHAR reads the requests of a HAR to the host of target, and below its path;
// without a target there must be one host alone.
func readHAR(name string, text []byte, target *url.URL) (all []seen, host string, err error) {
	var file harFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, "", usage.Errorf("%s:%d: %s; want a HAR, as browsers save it", name, lineOfError(text, err), plainJSON(err))
	}
	if len(file.Log.Entries) == 0 {
		return nil, "", usage.Errorf("%s: no log.entries in it; want a HAR with requests, or a log of lines 'TIME STATUS [LATENCY]'", name)
	}
	hosts := map[string]int{}
	for i, e := range file.Log.Entries {
		u, err := url.Parse(e.Request.URL)
		switch {
		case err != nil || u.Host == "":
			return nil, "", usage.Errorf("%s: log.entries[%d]: request.url %s is not a URL; want one such as https://api.example.com/things", name, i, cmp.Or(words.URL(e.Request.URL), `""`))
		case e.Started.IsZero():
			return nil, "", usage.Errorf("%s: log.entries[%d]: no startedDateTime; want one such as 2026-01-02T15:04:05.678Z", name, i)
		case !below(u, target):
			continue
		}
		host = hostOf(u)
		hosts[host]++
		all = append(all, e.seen())
	}
	switch {
	case len(all) == 0:
		return nil, "", usage.Errorf("%s: none of its %s is to %s", name, words.Plural(len(file.Log.Entries), "request", "requests"), words.URL(target.String()))
	case len(hosts) > 1:
		return nil, "", usage.Errorf("%s: it has requests to %d hosts, as %s; name a URL after it", name, len(hosts), some(hosts))
	}
	return all, host, nil
}

// below reports whether u is at the host and port of target, and its path is that
// of target or below it. All are, if there is none.
func below(u, target *url.URL) bool {
	if target == nil {
		return true
	}
	rest, ok := strings.CutPrefix(u.Path, strings.TrimSuffix(target.Path, "/"))
	return ok && (rest == "" || rest[0] == '/') && hostOf(u) == hostOf(target)
}

// hostOf is the host of a URL, with its port unless that is the scheme's.
func hostOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if port := map[string]string{"http": "80", "https": "443"}[u.Scheme]; port != "" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return host
}

// some are the most frequent of the hosts, at most three.
func some(hosts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(hosts), func(a, b string) int {
		if hosts[a] != hosts[b] {
			return hosts[b] - hosts[a]
		}
		return strings.Compare(a, b)
	})
	return words.Enumerate(names[:min(3, len(names))])
}

// seen is the request from when it could be sent (its connection was there) to
// when its answer began.
func (e *harEntry) seen() seen {
	before := max(e.Timings.Blocked, 0) + max(e.Timings.DNS, 0) + max(e.Timings.Connect, 0)
	begun := max(e.Time-max(e.Timings.Receive, 0), before)
	s := seen{
		sent:   e.Started.Add(milliseconds(before)),
		ended:  e.Started.Add(milliseconds(begun)),
		status: e.Response.Status, fields: map[string]string{},
	}
	for _, f := range e.Response.Headers {
		s.keep(f.Name, f.Value)
	}
	s.body = e.body()
	return s
}

// body is the beginning of the answer's body, if the HAR has it.
func (e *harEntry) body() []byte {
	text := e.Response.Content.Text
	if e.Response.Content.Encoding == "base64" {
		text = text[:min(len(text), base64.StdEncoding.EncodedLen(signal.MaxBody))]
		body, _ := base64.StdEncoding.DecodeString(text) // what is before an error
		return body
	}
	return []byte(text[:min(len(text), signal.MaxBody)])
}

func milliseconds(ms float64) time.Duration {
	return time.Duration(min(ms, 1e9) * float64(time.Millisecond))
}

// keep keeps a field that may be about limits. The lines of one field are joined
// by commas where package signal wants it so; else the first one counts.
func (s *seen) keep(name, value string) {
	if !about(name) || len(value) > maxValue {
		return
	}
	name = strings.ToLower(name)
	if s.fields == nil {
		s.fields = map[string]string{}
	}
	switch old, ok := s.fields[name]; {
	case !ok:
		s.fields[name] = value
	case strings.HasPrefix(name, "ratelimit"):
		s.fields[name] = old + ", " + value
	}
}

// lineOfError is the line in which a JSON text is wrong.
func lineOfError(text []byte, err error) int {
	offset := int64(0)
	if e := (*json.SyntaxError)(nil); errors.As(err, &e) {
		offset = e.Offset
	}
	if e := (*json.UnmarshalTypeError)(nil); errors.As(err, &e) {
		offset = e.Offset
	}
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}

// plainJSON is what is wrong with a JSON text, without the names of Go types.
func plainJSON(err error) string {
	if e := (*json.UnmarshalTypeError)(nil); errors.As(err, &e) {
		return fmt.Sprintf("%s is a %s", words.Quote(e.Field), e.Value)
	}
	if e := (*time.ParseError)(nil); errors.As(err, &e) {
		return words.Quote(strings.Trim(e.Value, `"`)) + " is not a time such as 2026-01-02T15:04:05.678Z"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
