package egress

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

func TestBadFlags(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "egress: -to is missing; write the API that is called, as in -to https://api.github.com"},
		{"https://h", "egress: https://h is too much; write 'throttle egress -to URL [flags]'"},
		{"-to h", "egress: -to h: is not a URL; write https://HOST"},
		{"-to ftp://h", "egress: -to ftp://h: begins with ftp:; it must be https: or http:"},
		{"-to https://u:p@h", "egress: -to (not shown): must have no user, no query and no #"},
		{"-to a=h", "egress: -to: the URL of a: h: is not a URL; write https://HOST"},
		{"-to a/b=http://h", "egress: -to: the name a/b: a name is up to 100 letters, digits and . _ -, as in github; write NAME=URL"},
		{"-to throttle=http://h", "egress: -to: the name throttle: is the path of the page; write another name; write NAME=URL"},
		{"-to http://h -to http://h", "egress: -to: the name h occurs twice; write NAME=URL"},
		{"-to http://h -to a=http://h", "egress: -to: the URL of h: is that of a too; a request by URL could mean either"},
		{"-to http://h -rate 4", "egress: -rate \"4\": has no '/'; write COUNT/[N]UNIT"},
		{"-to http://h -rate 0/s", "egress: -rate 0/s: must be a rate above zero, as 4/s or 100/min burst 10"},
		{"-to http://h -rate unlimited", "egress: -rate unlimited: bounds nothing; leave it out, and the rate is learnt"},
		{"-to http://h -rate 5/h_fixed-window", "egress: -rate "},
		{"-to http://h -dialect nope", "egress: -dialect nope: is not known; known are "},
		{"-to http://h -account Authorization", "egress: -account Authorization: must be like header:Authorization"},
		{"-to http://h -account header:a:b", "egress: -account a:b: must be the name of a header field, as Authorization"},
		{"-to http://h -listen :99999", "egress: -listen :99999: must be HOST:PORT, as 127.0.0.1:8090, or :8090 for all addresses"},
		{"-to http://h -listen 8090", "egress: -listen 8090: must be HOST:PORT, as 127.0.0.1:8090, or :8090 for all addresses"},
		{"-to http://h -wait 0s", "egress: -wait 0s: must be above zero"},
		{"-to http://h -most -1", "egress: -most -1: must not be below zero"},
		{"-to http://h -delay -1s", "egress: -delay -1s: must not be below zero"},
	} {
		var args []string
		for _, a := range strings.Fields(c.in) {
			args = append(args, strings.ReplaceAll(a, "_", " "))
		}
		if _, errs, code := clitest.Play(t.Context(), Run, args...); code != 2 || !strings.HasPrefix(errs, "throttle: "+c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("throttle egress %s: code %d\ngot  %swant throttle: %s", c.in, code, errs, c.want)
		}
	}
	if out, _, code := clitest.Play(t.Context(), Run, "-h"); code != 0 || !strings.Contains(out, "throttle egress -to https://api.github.com\n") {
		t.Errorf("help: code %d\n%s", code, out)
	}
}

// TestRun: the command says where it is, serves, and ends.
func TestRun(t *testing.T) {
	s := httptest.NewServer(status(200))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, []string{"-to", "api=" + s.URL, "-listen", "127.0.0.1:0"}, nil, io.Discard, out)
		out.Close()
	}()
	lines := bufio.NewScanner(in)
	lines.Scan()
	found := regexp.MustCompile(`^throttle egress: (http://\S+/api/) to ` + s.URL + `; page (http://\S+/throttle/)$`).FindStringSubmatch(lines.Text())
	if found == nil {
		t.Fatalf("it said %q", lines.Text())
	}
	for _, url := range found[1:] {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		a, err := http.DefaultClient.Do(r)
		if err != nil || a.StatusCode != 200 {
			t.Fatalf("%s: %v, %v", url, a, err)
		}
		a.Body.Close()
	}
	cancel()
	go io.Copy(io.Discard, in)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, errs, code := clitest.Play(t.Context(), Run, "-to", s.URL, "-listen", strings.TrimPrefix(s.URL, "http://")); code != 1 || !strings.Contains(errs, "egress: -listen ") {
		t.Errorf("a socket in use: code %d, %s", code, errs)
	}
}
