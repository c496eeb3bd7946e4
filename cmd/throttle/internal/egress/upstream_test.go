package egress

import (
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers that every name is this machine.
func nameServer(t *testing.T) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before; c.Close() })
	go func() {
		for question := make([]byte, 1<<10); ; {
			n, from, err := c.ReadFrom(question)
			var m dnsmessage.Message
			if err != nil || m.Unpack(question[:n]) != nil {
				return
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			answer, _ := m.Pack()
			c.WriteTo(answer, from)
		}
	}()
}

// TestPrivateAddress: a name that resolves to this machine is not connected to, not once.
func TestPrivateAddress(t *testing.T) {
	nameServer(t)
	s := httptest.NewServer(status(200))
	defer s.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	e := serve(t, Config{APIs: map[string]API{"no": {URL: "http://evil.test:" + port}, "yes": {URL: "http://our.test:" + port, Private: true}}})
	if a := e.send("GET", "/no/", nil); a.StatusCode != 502 || a.mark() != "private-address" || a.Header.Get(mayHaveRun) != "false" {
		t.Errorf("answered %d %q: %s", a.StatusCode, a.mark(), a.body)
	}
	if a := e.send("GET", "/yes/", nil); a.StatusCode != 200 {
		t.Errorf("answered %d %q: %s", a.StatusCode, a.mark(), a.body)
	}
	if n := e.apis[0].counter.Stats(); n.Starts != 1 {
		t.Errorf("%d tries", n.Starts)
	}
}
