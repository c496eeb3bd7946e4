package xds_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/throttle-go/throttle/cmd/throttle/internal/xds"
	"github.com/throttle-go/throttle/cmd/throttle/internal/xdstest"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/rules"
)

// follow runs a client of a server with a source of rules, until end is called.
func follow(t *testing.T, addr string, log *slog.Logger) (from *rules.Source, end func()) {
	t.Helper()
	c := &xds.Client{Server: addr, Node: xdstest.Node, Log: log}
	from = &rules.Source{Fetch: c.Fetch, Keep: filepath.Join(t.TempDir(), "kept")}
	c.Use = from.Refresh
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(end)
	return from, end
}

// lost waits until a source knows that its server is away.
func lost(t *testing.T, from *rules.Source) {
	t.Helper()
	for began := time.Now(); from.Refresh(t.Context()) == nil; {
		if time.Since(began) > 20*time.Second {
			t.Fatal("the connection is not lost after 20 s")
		}
	}
}

// limits are the rules in use, by domain.
func limits(from *rules.Source) string {
	var all []string
	for _, r := range from.Live.Load().Set().Rules {
		all = append(all, fmt.Sprintf("%s %d", r.Match.Domains[0], r.Limits[0].Count))
	}
	return strings.Join(all, ", ")
}

// TestClient: what a server sends is put into use whole and acknowledged, or refused with
// the reason, and the rules before stay. What is not sent any more is gone.
func TestClient(t *testing.T) {
	s := xdstest.Start(t, "")
	s.Set("1", xdstest.PerHour("b", 2), xdstest.PerHour("a", 1))
	from, _ := follow(t, s.Addr, nil)
	if err := from.Refresh(t.Context()); err != nil || limits(from) != "a 1, b 2" {
		t.Fatalf("at first: %v, %s", err, limits(from))
	}
	twice := xdstest.PerHour("a", 5)
	twice.Name = "other"
	for _, x := range []struct {
		version        string
		sent           []*ratelimitpb.RateLimitConfig
		refused, rules string
	}{
		{"2", []*ratelimitpb.RateLimitConfig{xdstest.PerHour("a", 3), xdstest.PerHour("b", 2)}, "", "a 3, b 2"},
		{"3", []*ratelimitpb.RateLimitConfig{xdstest.PerHour("a", 4), xdstest.Wrong("b")}, "rules: b descriptors[0].rate_limit: rate_limit: no unit; write second, minute, hour, day, week, month or year", "a 3, b 2"},
		{"4", []*ratelimitpb.RateLimitConfig{xdstest.PerHour("a", 4), twice}, "rules: other: domain a is that of a too; there is one resource for each domain", "a 3, b 2"},
		{"5", []*ratelimitpb.RateLimitConfig{xdstest.PerHour("b", 2)}, "", "b 2"},
		{"6", nil, "", ""},
		{"7", []*ratelimitpb.RateLimitConfig{xdstest.PerHour("a", 1)}, "", "a 1"},
	} {
		s.Set(x.version, x.sent...)
		refused := s.Answered(x.version)
		for refused != "" && refused != x.refused { // a further refusal of the version before
			refused = s.Answered(x.version)
		}
		if is := from.Status(); refused != x.refused || limits(from) != x.rules || (is.Err != nil) != (x.refused != "") {
			t.Errorf("version %s: refused %q, rules %s, %v; want %q, %s", x.version, refused, limits(from), is.Err, x.refused, x.rules)
		}
	}
}

// TestClientAway: the rules stay while the server is away; when it is back, what it has
// counts, though the numbers of its versions begin again. A start without it has what was kept.
func TestClientAway(t *testing.T) {
	s := xdstest.Start(t, "")
	s.Set("1", xdstest.PerHour("a", 1))
	from, end := follow(t, s.Addr, nil)
	if s.Answered("1") != "" || limits(from) != "a 1" {
		t.Fatalf("at first: %s", limits(from))
	}
	s.Stop()
	lost(t, from)
	if is := from.Status(); limits(from) != "a 1" || !strings.HasPrefix(is.Err.Error(), "rules: "+s.Addr+": ") || strings.Contains(is.Err.Error(), "\n") {
		t.Errorf("while it is away: %s, %v", limits(from), is.Err)
	}
	again := xdstest.Start(t, s.Addr)
	<-again.Requests // it has subscribed again
	if err := from.Refresh(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "it has sent nothing since it was connected again") {
		t.Errorf("of a server that has nothing yet: %v", err)
	}
	again.Set("1", xdstest.PerHour("a", 2))
	if again.Answered("1") != "" || limits(from) != "a 2" || from.Status().Err != nil {
		t.Errorf("when it is back: %s, %v", limits(from), from.Status().Err)
	}
	end()
	again.Stop()
	c := &xds.Client{Server: s.Addr, Node: xdstest.Node}
	kept := &rules.Source{Fetch: c.Fetch, Keep: from.Keep}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Use = kept.Refresh
	go c.Run(ctx)
	if err := kept.Refresh(t.Context()); err == nil || limits(kept) != "a 2" || kept.Status().From != rules.Kept {
		t.Errorf("a start without it: %v, %s, %+v", err, limits(kept), kept.Status())
	}
}

// TestClientOtherNode: a server that has nothing for a node says nothing, and so there are
// no rules.
func TestClientOtherNode(t *testing.T) {
	s := xdstest.Start(t, "")
	from, _ := follow(t, s.Addr, nil)
	<-s.Requests // it has subscribed
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := from.Refresh(ctx); err == nil || !strings.HasPrefix(err.Error(), "rules: "+s.Addr+`: it has sent nothing yet; does it have resources for the node "envoy-ratelimit"?`) {
		t.Errorf("Refresh = %v", err)
	}
}

// TestClientTooLong: a message above the bound is not read, and the rules before stay.
func TestClientTooLong(t *testing.T) {
	s := xdstest.Start(t, "")
	s.Set("1", xdstest.PerHour("a", 1))
	from, _ := follow(t, s.Addr, nil)
	if s.Answered("1") != "" {
		t.Fatal("refused")
	}
	long := xdstest.PerHour("b", 1)
	long.Descriptors[0].Value = strings.Repeat("x", 17<<20)
	s.Set("2", long)
	lost(t, from)
	if is := from.Status(); limits(from) != "a 1" || !strings.Contains(is.Err.Error(), "larger than max (17825") {
		t.Errorf("%s, %v", limits(from), is.Err)
	}
}

// TestClientNotes: what is left out of what a server sends is logged once, until it changes.
func TestClientNotes(t *testing.T) {
	var log bytes.Buffer
	s := xdstest.Start(t, "")
	_, end := follow(t, s.Addr, slog.New(slog.NewTextHandler(&log, nil)))
	for _, version := range []string{"1", "2"} {
		noted := xdstest.PerHour("a", uint32(len(version)))
		noted.Descriptors[0].RateLimit.Name = "n"
		s.Set(version, noted)
		if s.Answered(version) != "" {
			t.Fatal("refused")
		}
	}
	end()
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "a descriptors[0].rate_limit: name: answers have the name of the rule; left out") {
		t.Errorf("the log says %q, want one line", text)
	}
}

// TestReconnects: connections that fail follow each other ever more slowly.
func TestReconnects(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at []time.Time
		c := &xds.Client{Server: "h:1", TLS: func() (*tls.Config, error) {
			at = append(at, time.Now())
			return nil, errors.New("no such file")
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		c.Run(ctx)
		if n := len(at); n < 24 || n > 45 {
			t.Errorf("%d connections in 10 minutes, want one each 15 to 30 s after the first five", n)
		}
		for i, least := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second} {
			if got := at[i+1].Sub(at[i]); got < least || got > 2*least+time.Millisecond {
				t.Errorf("wait %d: %v, want from %v to %v", i, got, least, 2*least)
			}
		}
		if _, _, err := c.Fetch(ctx, ""); err == nil || err.Error() != "h:1: no such file" {
			t.Errorf("Fetch = %v", err)
		}
	})
}
