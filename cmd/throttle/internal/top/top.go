// Package top is the command 'throttle top': the charts of the page of operators as
// lines, live on a terminal.
package top

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const help = `throttle top shows what a running 'throttle serve' decides, from its admin listener.

Usage: throttle top [-admin URL] [-token TOKEN] [-once]

On a terminal it shows the last ten minutes, as far as it is wide enough, and each
second that comes, until it is interrupted; in a pipe, or with -once, it prints them
once and ends.

  -admin URL    the admin listener (default http://127.0.0.1:6070), or unix:PATH
  -token TOKEN  a token that may read (default $THROTTLE_TOKEN)
  -once         print once

Examples:
  throttle top
  THROTTLE_TOKEN=$(cat /run/secrets/reader) throttle top -admin https://gateway-1:6070
`

const (
	// answerWithin bounds one request, and the wait for the next event of a stream.
	answerWithin = 10 * time.Second
	streamWithin = 45 * time.Second // three heartbeats
	mostAnswer   = 64 << 20
	mostEvent    = 1 << 20
	// again is the time between two attempts to reach the listener.
	again = 2 * time.Second
)

// admin is an admin listener.
type admin struct {
	base, token string
	socket      string // the path of a unix socket, or empty
	client      *http.Client
}

// name is its URL without a password, or its socket.
func (a *admin) name() string {
	if a.socket != "" {
		return "unix:" + words.Quote(a.socket)
	}
	return words.URL(a.base)
}

// Run shows the lines until ctx ends, or once.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("top", flag.ContinueOnError)
	base := flags.String("admin", "http://127.0.0.1:6070", "")
	token := flags.String("token", os.Getenv("THROTTLE_TOKEN"), "")
	once := flags.Bool("once", false, "")
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case len(names) > 0:
		return usage.Errorf("top: %s is one too many; run 'throttle top -h'", words.Quote(names[0]))
	}
	a, err := adminAt(*base)
	if err != nil {
		return err
	}
	if strings.ContainsAny(*token, "\r\n\x00") {
		return usage.Error("top: the token has a line break; write it without")
	}
	a.token = *token
	return show(ctx, a, stdout, *once)
}

// adminAt returns the listener at a URL, or at unix:PATH, as the file of 'throttle
// serve' names it.
func adminAt(base string) (*admin, error) {
	if path, ok := strings.CutPrefix(base, "unix:"); ok && path != "" {
		var d net.Dialer
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }
		return &admin{base: "http://localhost", socket: path, client: &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, usage.Error("top: -admin must be like http://127.0.0.1:6070 or unix:PATH" + words.Brackets(base))
	}
	if what := words.BadPort(u); what != "" {
		return nil, usage.Errorf("top: -admin %s: %s", words.Quote(words.URL(base)), what)
	}
	return &admin{base: strings.TrimSuffix(u.String(), "/"), client: &http.Client{}}, nil
}

// show shows the lines of a listener.
func show(ctx context.Context, a *admin, stdout io.Writer, once bool) error {
	defer a.client.CloseIdleConnections()
	s := &screen{to: stdout, width: cmp.Or(terminal.Width(stdout), 80)}
	if err := a.load(ctx, s); err != nil {
		return err
	}
	if once || !terminal.Is(stdout) {
		if len(s.ticks) == 0 {
			a.first(ctx, s)
		}
		return s.once()
	}
	return a.live(ctx, s)
}

// first waits for the first tick of a listener that nobody has looked at lately: it
// measures only from then on. If none comes, the screen says so.
func (a *admin) first(ctx context.Context, s *screen) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	r, err := a.send(ctx, "/api/v1/stream?after=0")
	if err != nil {
		return
	}
	defer r.Body.Close() // only read from
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, mostEvent)
	for lines.Scan() {
		if t, ok := tickOf(lines.Text()); ok {
			s.add(t)
			return
		}
	}
}

// get reads an endpoint into v.
func (a *admin) get(ctx context.Context, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	r, err := a.send(ctx, path)
	if err != nil {
		return err
	}
	defer r.Body.Close() // only read from
	if err := json.NewDecoder(io.LimitReader(r.Body, mostAnswer)).Decode(v); err != nil {
		return exit.Failf("top: %s%s is no admin listener: %v", a.name(), path, err)
	}
	return nil
}

// send asks for an endpoint; its error says what the listener has against it.
func (a *admin) send(ctx context.Context, path string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		q.Header.Set("Authorization", "Bearer "+a.token)
	}
	r, err := a.client.Do(q)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), a.socket != "" && errors.Is(err, fs.ErrNotExist):
		return nil, exit.Failf("top: nothing listens at %s; want 'throttle serve' with a section admin there, or another -admin URL", a.name())
	case err != nil:
		return nil, exit.Failf("top: %v", err)
	}
	if r.StatusCode == http.StatusOK {
		return r, nil
	}
	defer r.Body.Close() // only read from
	var p struct{ Detail string }
	_ = json.NewDecoder(io.LimitReader(r.Body, mostEvent)).Decode(&p) // the status says enough
	switch {
	case r.StatusCode == http.StatusUnauthorized && a.token != "":
		return nil, usage.Errorf("top: %s does not know the token; set -token or $THROTTLE_TOKEN to one of its own", a.name())
	case r.StatusCode == http.StatusUnauthorized:
		return nil, usage.Errorf("top: %s wants a token: set -token or $THROTTLE_TOKEN", a.name())
	}
	return nil, exit.Failf("top: %s%s: %s %s", a.name(), path, r.Status, words.OneLine(p.Detail))
}

// load asks for what a screen shows.
func (a *admin) load(ctx context.Context, s *screen) error {
	if err := a.get(ctx, "/api/v1/status", &s.status); err != nil {
		return err
	}
	if s.status == (status{}) {
		return exit.Failf("top: %s is no admin listener: its status names no instance and no build", a.name())
	}
	a.loadRules(ctx, s)
	var series struct{ Ticks []ticks.Tick }
	after := int64(0)
	if n := len(s.ticks); n > 0 {
		after = s.ticks[n-1].ID
	}
	if err := a.get(ctx, fmt.Sprint("/api/v1/series?after=", after), &series); err != nil {
		return err
	}
	for _, t := range series.Ticks {
		s.add(t)
	}
	return nil
}

// loadRules asks for the names of the rules; those that are known stay where it fails.
func (a *admin) loadRules(ctx context.Context, s *screen) {
	var rules struct{ Rules []struct{ Name string } }
	if err := a.get(ctx, "/api/v1/rules", &rules); err == nil {
		s.rules = nil
		for _, r := range rules.Rules {
			s.rules = append(s.rules, r.Name)
		}
	}
}

// live shows each tick, and goes on after the listener was away.
func (a *admin) live(ctx context.Context, s *screen) error {
	for {
		err := a.follow(ctx, s)
		if ctx.Err() != nil {
			return nil
		}
		s.say = words.OneLine(err.Error())
		if err := s.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(again):
		}
		if a.load(ctx, s) == nil {
			s.say = ""
		}
	}
}

// follow reads the stream until it ends, which is an error.
func (a *admin) follow(ctx context.Context, s *screen) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(streamWithin, cancel)
	defer silent.Stop()
	after := int64(0)
	if n := len(s.ticks); n > 0 {
		after = s.ticks[n-1].ID
	}
	r, err := a.send(ctx, fmt.Sprint("/api/v1/stream?after=", after))
	if err != nil {
		return err
	}
	defer r.Body.Close() // only read from
	return s.scan(r.Body, func() { silent.Reset(streamWithin) }, func() { a.loadRules(ctx, s) })
}

// scan draws the ticks of a stream until it ends; heard is called with each line, and
// changed where the rules have another version.
func (s *screen) scan(stream io.Reader, heard, changed func()) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, mostEvent)
	for lines.Scan() {
		heard()
		t, ok := tickOf(lines.Text())
		if !ok {
			continue
		}
		if n := len(s.ticks); n > 0 && t.Version != s.ticks[n-1].Version {
			changed()
		}
		s.add(t)
		if err := s.draw(); err != nil {
			return err
		}
	}
	return cmp.Or(lines.Err(), errors.New("the stream ended"))
}

// tickOf reads the tick in a line of a stream, if it has one.
func tickOf(line string) (t ticks.Tick, ok bool) {
	data, ok := strings.CutPrefix(line, "data: ")
	ok = ok && json.Unmarshal([]byte(data), &t) == nil
	return t, ok
}
