//go:build unix

package serve

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
)

// authority makes one for hosts in a directory.
func authority(t *testing.T, dir string, hosts ...string) {
	t.Helper()
	key, err := intercept.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c, err := intercept.NewCertificate(key, hosts, time.Now())
	if err := errors.Join(err, intercept.WriteKey(dir, key), intercept.WriteCertificate(dir, c, nil)); err != nil {
		t.Fatal(err)
	}
}

// TestIntercept: the section of CONNECT is in use, with its list and its token.
func TestIntercept(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca")
	authority(t, ca, "api.example.com")
	dir := folder(t, http.NotFoundHandler(), "e.yaml", strings.Replace(`
version: 1
egress:
  listen: 127.0.0.1:0
  apis: {one: 'https://api.example.com'}
  intercept: {ca: DIR, tunnel: ['*.example.org', 10.0.0.0/8], token: s3cret}
drain: {delay: 0s}
`, "DIR", ca, 1))
	p := start(t, dir, "e.yaml")
	for target, want := range map[string]string{
		"api.example.com:443": "200 Connection Established", "api.example.com:80": "403 Forbidden", "evil.example.com:443": "403 Forbidden", "127.0.0.1:443": "403 Forbidden",
	} {
		for field, answer := range map[string]string{"Proxy-Authorization: Basic eDpzM2NyZXQ=\r\n": want, "": "407 Proxy Authentication Required"} {
			c, err := net.Dial("tcp", strings.TrimPrefix(p.egress, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: a\r\n%s\r\n", target, field)
			text := make([]byte, len("HTTP/1.1 ")+len(answer))
			if n, err := c.Read(text); !strings.HasSuffix(string(text[:n]), answer) {
				t.Errorf("CONNECT %s with %q: %q, %v; want %s", target, field, text[:n], err, answer)
			}
			c.Close()
		}
	}
	if code := p.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestBadIntercept: a mistake has its place in the file, and the line says what is right.
func TestBadIntercept(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca")
	authority(t, ca, "api.example.com")
	for text, want := range map[string]string{
		"{ca: /none}":                            "5:19: egress.intercept.ca: there is no CA in /none; run 'throttle ca -dir /none -hosts h'",
		"{ca: DIR}":                              "5:19: egress.intercept.ca: the CA in DIR does not permit h; run 'throttle ca -renew -dir DIR -hosts api.example.com,h'",
		"{ca: DIR, hosts: [h, api.example.com]}": "5:LATER: egress.intercept.hosts[1]: api.example.com: is the host of no API by https; they are h",
		"{ca: DIR, tunnel: [ok.example, 'a:0']}": "5:LATER: egress.intercept.tunnel[1]: a:0: the port must be a number from 1 to 65535",
		"{hosts: [h]}":                           "5:14: egress.intercept: ca is missing: directory of the authority",
	} {
		dir := folder(t, http.NotFoundHandler(), "e.yaml", "version: 1\negress:\n  listen: ':0'\n  apis: {a: 'https://h'}\n  intercept: "+strings.ReplaceAll(text, "DIR", ca)+"\n")
		name := filepath.Join(dir, "e.yaml")
		_, errs, code := clitest.Play(t.Context(), Run, name)
		place, what, _ := strings.Cut(strings.ReplaceAll(want, "DIR", ca), ": ")
		place = strings.TrimSuffix(place, "LATER")
		if code != 2 || !strings.HasPrefix(errs, "throttle: "+name+":"+place) || !strings.Contains(errs, ": "+what) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d\ngot  %swant throttle: %s:%s", text, code, errs, name, want)
		}
	}
}
