package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
)

// Bounds of what is read.
const (
	maxFile  = 256 << 20
	maxSeen  = 1_000_000 // lines
	maxValue = 4 << 10   // bytes of a header field
	// maxLatency is beyond what an answer takes: the unit is another one.
	maxLatency = time.Hour
)

// lineWant says what a line of a log is like.
const lineWant = "want 'TIME STATUS [LATENCY]', as in 2026-01-02T15:04:05.678Z 429 12ms"

// readFile reads a file of requests that were sent, or standard input if its
// name is a dash.
func readFile(name string, stdin io.Reader) (text []byte, err error) {
	in := stdin
	if name != "-" {
		f, err := infile.Open(name)
		if err != nil {
			return nil, usage.Errorf("find: -observe: %s", plainPath(err))
		}
		defer f.Close()
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return nil, usage.Errorf("find: -observe: %s is a directory; name a file", words.Quote(name))
		}
		in = f
	}
	text, err = io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return nil, exit.Failf("find: -observe: %v", err)
	case len(text) > maxFile:
		return nil, usage.Errorf("find: -observe: %s has more than %d MiB; give a part of it", words.Quote(name), maxFile>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, usage.Errorf("find: -observe: %s is empty; want a HAR, or lines 'TIME STATUS [LATENCY]'", words.Quote(name))
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil
}

// plainPath is an error about a file, without the name of the system call.
func plainPath(err error) string {
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		return words.Quote(e.Path) + ": " + e.Err.Error()
	}
	return err.Error()
}

// isHAR reports whether a text is one JSON object that has a log, and not one
// object a line.
func isHAR(text []byte) bool {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.Token()
	first, err := d.Token()
	return err != nil || first == "log"
}

// readLog reads lines of TIME STATUS [LATENCY], apart by blanks, tabs, commas or
// semicolons, or JSON objects with time, status, latency,
// refused, wait and fields. A line that
// begins with # is a comment; a first line without a digit is a heading.
// Requests without a latency count as answered within so long.
func readLog(name string, text []byte, latency time.Duration) (all []seen, err error) {
	number := 0
	for raw := range bytes.Lines(text) {
		number++
		line := strings.TrimSpace(string(raw))
		if line == "" || line[0] == '#' || len(all) == 0 && !strings.ContainsAny(line, "0123456789{") {
			continue
		}
		if len(all) == maxSeen {
			return nil, usage.Errorf("%s:%d: more than %s requests; give a part of it", name, number, words.Whole(maxSeen))
		}
		read := readLine
		if line[0] == '{' {
			read = readObject
		}
		s, took, why := read(line)
		if why != "" {
			return nil, usage.Errorf("%s:%d: %s", name, number, why)
		}
		if took < 0 {
			took = latency
		}
		s.ended = s.sent.Add(took)
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, usage.Errorf("%s: no request in it; %s", name, lineWant)
	}
	coarse(all)
	return all, nil
}

// coarse lets requests end later by the resolution of their times, which were
// cut off: a second, if all are whole seconds.
func coarse(all []seen) {
	for _, unit := range []time.Duration{time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond} {
		whole := true
		for _, s := range all {
			whole = whole && s.sent.Nanosecond()%int(unit) == 0
		}
		if whole {
			for i := range all {
				all[i].ended = all[i].ended.Add(unit)
			}
			return
		}
	}
}

// readLine reads a line of words. A latency below zero is not known.
func readLine(line string) (s seen, latency time.Duration, why string) {
	all := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(",; \t", r) })
	for i := range all {
		all[i] = strings.Trim(all[i], `"`)
	}
	if len(all) > 2 && strings.Count(all[0], "-") == 2 && strings.Contains(all[1], ":") {
		all = append([]string{all[0] + "T" + all[1]}, all[2:]...) // a date and a time
	}
	if len(all) < 2 || len(all) > 3 {
		return s, 0, words.Quote(line) + " is not a request; " + lineWant
	}
	if s.sent, why = timeOf(all[0]); why != "" {
		return s, 0, why
	}
	if s.status, why = statusOf(all[1]); why != "" {
		return s, 0, why
	}
	latency = -1
	if len(all) == 3 {
		latency, why = latencyOf(all[2])
	}
	return s, latency, why
}

// readObject reads a JSON object, as -log writes it.
func readObject(line string) (s seen, latency time.Duration, why string) {
	var o struct {
		Time, Status, Latency json.RawMessage
		Fields                map[string]string
		Refused               bool
		Wait                  string
	}
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		return s, 0, plainJSON(err) + `; want {"time": "2026-01-02T15:04:05.678Z", "status": 429, "latency": "12ms"}`
	}
	text := func(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }
	if s.sent, why = timeOf(text(o.Time)); why != "" {
		return s, 0, why
	}
	if s.status, why = statusOf(text(o.Status)); why != "" {
		return s, 0, why
	}
	for name, value := range o.Fields {
		s.keep(name, value)
	}
	s.refused = o.Refused
	if o.Wait != "" {
		wait, err := time.ParseDuration(o.Wait)
		if err != nil || wait < 0 {
			return s, 0, "wait " + words.Quote(o.Wait) + " is not one; want one such as 7s"
		}
		s.wait = wait
	}
	latency = -1
	if o.Latency != nil {
		latency, why = latencyOf(text(o.Latency))
	}
	return s, latency, why
}

// timeOf reads a time: RFC 3339, without a zone in UTC, or seconds of Unix time.
func timeOf(text string) (at time.Time, why string) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if at, err := time.Parse(layout, strings.Replace(text, " ", "T", 1)); err == nil {
			return at, ""
		}
	}
	whole, part, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, errPart := strconv.ParseUint("0"+(part + "000000000")[:9], 10, 64)
	switch {
	case err != nil || errPart != nil:
		return at, "time " + words.Quote(text) + " is not one; want one such as 2026-01-02T15:04:05.678Z, or Unix time in seconds"
	case whole[0] == '-' || seconds > 1e11:
		return at, "time " + words.Quote(text) + " is no Unix time in seconds; milliseconds are written with a point: 1767366245.678"
	}
	return time.Unix(seconds, int64(nanos)), ""
}

// statusOf reads a status: 0 or a dash where no answer came.
func statusOf(text string) (status int, why string) {
	if text == "-" {
		return 0, ""
	}
	status, err := strconv.Atoi(text)
	if err != nil || status != 0 && (status < 100 || status > 999) {
		return 0, "status " + words.Quote(text) + " is not one; want 100 to 999, or 0 where no answer came"
	}
	return status, ""
}

// latencyOf reads a duration, or a number of seconds.
func latencyOf(text string) (latency time.Duration, why string) {
	latency, err := time.ParseDuration(text)
	if seconds, errNumber := strconv.ParseFloat(text, 64); errNumber == nil && !math.IsNaN(seconds) {
		latency, err = time.Duration(math.Max(-1, math.Min(seconds, 1e6))*1e9), nil
	}
	if err != nil || latency < 0 || latency > maxLatency {
		return 0, "latency " + words.Quote(text) + " is not one up to " + words.Short(maxLatency) + "; want one such as 12ms, or a number of seconds"
	}
	return latency, ""
}

// logBegins is how what writeLog writes begins.
const logBegins = `{"time":"`

// writeLog writes requests as readLog reads them, with what their bodies say of a
// refusal, as the bodies are not written.
func writeLog(w io.Writer, r reader, all []seen) error {
	out := json.NewEncoder(w)
	for _, s := range all {
		wait, reading := "", r.read(s)
		refused := reading.Verdict == pace.Throttled
		if refused && reading.After.V > 0 {
			wait = reading.After.V.String()
		}
		err := out.Encode(struct {
			Time    time.Time         `json:"time"`
			Status  int               `json:"status"`
			Latency string            `json:"latency"`
			Refused bool              `json:"refused,omitempty"`
			Wait    string            `json:"wait,omitempty"`
			Fields  map[string]string `json:"fields,omitempty"`
		}{s.sent.UTC(), s.status, s.ended.Sub(s.sent).String(), refused, wait, s.fields})
		if err != nil {
			return err
		}
	}
	return nil
}
