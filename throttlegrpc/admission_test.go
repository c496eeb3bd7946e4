package throttlegrpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
)

// A request is what all transports carry.
type request struct {
	client, key, header string
	from                string // 192.0.2.1 if empty
	path                string // /service/Method if empty
	cost                int64
	priority            load.Priority
	inside              []request // sent while it is in flight
	after               time.Duration
	panics              bool
	want                admit.Verdict
}

// admissions are the tests of admission, for every transport.
var admissions = []struct {
	name    string
	rules   string
	control func() *admit.Control
	seq     []request
}{
	{"no limit", "", func() *admit.Control { return new(admit.Control) }, []request{{want: admit.Admitted}, {want: admit.Admitted}}},
	{"a limit for each address", "", hourly, []request{
		{want: admit.Admitted},
		{want: admit.Limited},
		{from: "192.0.2.2", want: admit.Admitted},
		{from: "192.0.2.2", want: admit.Limited},
		{after: time.Hour, want: admit.Admitted},
	}},
	{"a limit for each network", "", hourly, []request{
		{from: "2001:db8::1", want: admit.Admitted}, {from: "2001:db8::ffff", want: admit.Limited}, {from: "2001:db8:0:1::1", want: admit.Admitted},
	}},
	{"a limit for each client", "", hourly, []request{
		{client: "a", want: admit.Admitted}, {client: "a", from: "192.0.2.9", want: admit.Limited}, {client: "b", want: admit.Admitted},
	}},
	{"a limit for each key", "", hourly, []request{
		{key: "k", client: "a", want: admit.Admitted}, {key: "k", client: "b", want: admit.Limited}, {key: "l", want: admit.Admitted},
	}},
	{"costs", "", func() *admit.Control { return &admit.Control{Limit: limit.Limit{Count: 5, Period: time.Hour}} }, []request{
		{cost: 3, want: admit.Admitted}, {cost: 3, want: admit.Limited}, {cost: 2, want: admit.Admitted}, {cost: 9, want: admit.Limited},
	}},
	{"in flight", "", func() *admit.Control { return &admit.Control{MaxInFlight: 2} }, []request{
		{want: admit.Admitted, inside: []request{
			{want: admit.Admitted, inside: []request{{want: admit.Limited}, {from: "192.0.2.2", want: admit.Admitted}}},
			{panics: true, want: admit.Admitted},
			{want: admit.Admitted},
		}},
		{want: admit.Admitted},
	}},
	{"load shedding", "", func() *admit.Control {
		return &admit.Control{Shed: &admit.Shedder{MaxInFlight: 1, MaxWait: -1}}
	}, []request{
		{want: admit.Admitted, inside: []request{{priority: load.Critical, want: admit.Overloaded}, {want: admit.Overloaded}}},
		{panics: true, want: admit.Admitted},
		{want: admit.Admitted},
	}},
	{"a Store that fails", "", func() *admit.Control {
		c := hourly()
		c.Store = store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, errors.New("secret") })
		return c
	}, []request{{want: admit.Undecided}, {want: admit.Undecided}}},
	{"rules", `{"deny": ["client=evil"], "rules": [
		{"name": "keyed", "match": {"paths": "/keyed/*"}, "key": "header:X-Key", "missing": "refuse", "limits": "1/h"},
		{"name": "common", "match": {"paths": "/common/*"}, "in_flight": 1},
		{"name": "each", "key": "client", "limits": "3/h"}]}`, func() *admit.Control { return new(admit.Control) }, []request{
		{client: "evil", want: admit.Denied},
		{client: "a", path: "/keyed/Method", want: admit.Keyless},
		{client: "a", path: "/keyed/Method", header: "h", want: admit.Admitted},
		{client: "b", path: "/keyed/Method", header: "h", want: admit.Limited},
		{client: "a", path: "/common/Method", want: admit.Admitted, inside: []request{
			{client: "b", path: "/common/Method", want: admit.Overloaded}, {client: "b", want: admit.Admitted},
		}},
		{client: "a", want: admit.Admitted},
		{client: "a", want: admit.Limited},
	}},
}

func hourly() *admit.Control {
	return &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}}
}

// A transport sends r through what is in front of a service, which calls inside.
type transport func(r request, inside func()) admit.Verdict

// TestAdmission: every transport admits and refuses the same.
func TestAdmission(t *testing.T) {
	for _, tt := range admissions {
		for name, over := range map[string]func(*admit.Control) transport{"Begin": direct, "HTTP": overHTTP, "gRPC": overGRPC} {
			bubble.Test(t, func(t *testing.T) {
				c := tt.control()
				c.InFlight = new(store.InFlight)
				if tt.rules != "" {
					compiled, err := rules.Parse([]byte(tt.rules))
					if err != nil {
						t.Fatal(err)
					}
					c.Rules = new(rules.Live)
					c.Rules.Swap(compiled)
				}
				seen := 0
				c.OnEvent = func(admit.Event) { seen++ }
				sent := send(t, tt.name+" over "+name, over(c), tt.seq)
				if n := c.InFlight.Stats().Holds; n != 0 || c.Shed != nil && c.Shed.Stats().InFlight != 0 {
					t.Errorf("%s over %s: %d are in flight in the end", tt.name, name, n)
				}
				if seen != sent {
					t.Errorf("%s over %s: %d events, want %d", tt.name, name, seen, sent)
				}
			})
		}
	}
}

// send sends requests, and returns how many.
func send(t *testing.T, what string, over transport, all []request) (sent int) {
	t.Helper()
	for i, r := range all {
		time.Sleep(r.after)
		ran := false
		got := over(r, func() {
			ran = true
			sent += send(t, what, over, r.inside)
			if r.panics {
				panic("the service")
			}
		})
		sent++
		if got != r.want || ran != (r.want == admit.Admitted) {
			t.Errorf("%s, request %d (%+v): %v, served %t; want %v", what, i, r, got, ran, r.want)
		}
	}
	return sent
}

// fill completes what a Control decides about.
func (r request) fill(q admit.Request) admit.Request {
	q.Client, q.Key, q.Priority = r.client, r.key, r.priority
	if r.cost > 0 {
		q.Cost = func(string) int64 { return r.cost }
	}
	return q
}

func addressOf(r request) netip.Addr { return netip.MustParseAddr(r.address()) }

func (r request) address() string {
	if r.from == "" {
		return "192.0.2.1"
	}
	return r.from
}

func (r request) method() string {
	if r.path == "" {
		return "/service/Method"
	}
	return r.path
}

// caught calls f, and swallows its panic.
func caught(f func()) {
	defer func() { _ = recover() }()
	f()
}

func direct(c *admit.Control) transport {
	return func(r request, inside func()) admit.Verdict {
		q := admit.Request{Request: rules.Request{Path: r.method(), Header: func(string) string { return r.header }}}
		q.Address = addressOf(r)
		a, _ := c.Begin(context.Background(), r.fill(q))
		defer a.Done()
		if a.OK {
			caught(inside)
		}
		return a.Verdict
	}
}

func overHTTP(c *admit.Control) transport {
	return func(r request, inside func()) admit.Verdict {
		hr := httptest.NewRequest("POST", r.method(), nil)
		hr.RemoteAddr = net.JoinHostPort(r.address(), "99")
		hr.Header.Set("X-Key", r.header)
		w := httptest.NewRecorder()
		h := &throttlehttp.Handler{
			Control: c,
			Request: func(_ *http.Request, q admit.Request) admit.Request { return r.fill(q) },
			Next:    http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside() }),
		}
		caught(func() { h.ServeHTTP(w, hr) })
		if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
			return admit.Undecided
		}
		for _, v := range []admit.Verdict{admit.Admitted, admit.Limited, admit.Overloaded, admit.Denied, admit.Keyless} {
			if w.Code == throttlehttp.Status(v) {
				return v
			}
		}
		return 99
	}
}

func overGRPC(c *admit.Control) transport {
	return func(r request, inside func()) admit.Verdict {
		s := &Server{Control: c, Request: func(_ context.Context, _ any, q admit.Request) admit.Request { return r.fill(q) }}
		a := addressOf(r)
		ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: a.AsSlice(), Port: 99}})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-key", r.header))
		var err error
		caught(func() {
			_, err = s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: r.method()}, func(context.Context, any) (any, error) {
				inside()
				return nil, nil
			})
		})
		st := status.Convert(err)
		switch st.Code() {
		case codes.OK:
			return admit.Admitted
		case codes.ResourceExhausted:
			return admit.Limited
		case codes.PermissionDenied:
			return admit.Denied
		case codes.InvalidArgument:
			return admit.Keyless
		case codes.Unavailable:
			if len(st.Details()) == 0 {
				return admit.Undecided
			}
			return admit.Overloaded
		}
		return 99
	}
}
