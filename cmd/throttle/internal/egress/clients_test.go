package egress

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// fivePerSecond is an API of 5 requests a second, and counts what it answered.
type fivePerSecond struct {
	handler         http.Handler
	served, refused atomic.Int64
}

func newFivePerSecond(says throttlehttp.Headers) *fivePerSecond {
	s := new(fivePerSecond)
	s.handler = &throttlehttp.Handler{
		Control: &admit.Control{Limit: limit.Limit{Count: 5, Period: time.Second}}, Headers: says,
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.served.Add(1)
			fmt.Fprintf(w, "%s %s\n", r.Method, r.URL.Path)
		}),
	}
	return s
}

func (s *fivePerSecond) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(&counted{w, s}, r)
}

// counted counts refusals.
type counted struct {
	http.ResponseWriter
	of *fivePerSecond
}

func (c *counted) WriteHeader(status int) {
	if status == http.StatusTooManyRequests {
		c.of.refused.Add(1)
	}
	c.ResponseWriter.WriteHeader(status)
}

// Each program sends 10 requests, 5 at a time, as GET and as POST, by the base URL BASE
// or by the proxy PROXY to the URL API, and prints each status on a line.
const (
	byUrllib = `
import urllib.request, urllib.error, concurrent.futures
opener = urllib.request.build_opener(urllib.request.ProxyHandler(HANDLER))
def call(i):
    try:
        with opener.open(urllib.request.Request("TARGET/%d" % i, data=b"x" if i % 2 else None)) as a:
            return a.status if a.read() else 0
    except urllib.error.HTTPError as e:
        return e.code
with concurrent.futures.ThreadPoolExecutor(5) as pool:
    for status in pool.map(call, range(10)):
        print(status)
`
	byRequests = `
import requests, concurrent.futures
session = requests.Session()
session.trust_env = False
def call(i):
    return session.request("POST" if i % 2 else "GET", "TARGET/%d" % i, data=b"x" if i % 2 else None, proxies=HANDLER).status_code
with concurrent.futures.ThreadPoolExecutor(5) as pool:
    for status in pool.map(call, range(10)):
        print(status)
`
	byHTTPX = `
import asyncio, httpx
async def main():
    async with httpx.AsyncClient(trust_env=False, timeout=30, proxy=HANDLER.get("http")) as client:
        room = asyncio.Semaphore(5)
        async def call(i):
            async with room:
                return (await client.request("POST" if i % 2 else "GET", "TARGET/%d" % i, content=b"x" if i % 2 else None)).status_code
        for status in await asyncio.gather(*(call(i) for i in range(10))):
            print(status)
asyncio.run(main())
`
	byNode = `
const call = async i => (await fetch("TARGET/" + i, i % 2 ? {method: "POST", body: "x"} : {})).status;
let i = 0;
const worker = async () => { while (i < 10) console.log(await call(i++)); };
for (let n = 0; n < 5; n++) worker();
`
)

// TestClients: programs of other languages see no refusal of an API that refuses what is
// above 5 a second.
func TestClients(t *testing.T) {
	for _, c := range []struct {
		name    string
		program []string
		script  string   // is its last argument
		need    []string // runs where the program is there
		proxy   bool     // it uses the proxy for the URL of the API
		says    throttlehttp.Headers
	}{
		{"curl", curl, "", nil, false, throttlehttp.Draft},
		{"curl", curl, "", nil, true, throttlehttp.Silent}, // so that only refusals show the limit
		{"urllib", python, byUrllib, nil, false, throttlehttp.Draft},
		{"requests", python, byRequests, []string{"python3", "-c", "import requests"}, true, throttlehttp.Draft},
		{"httpx", python, byHTTPX, []string{"python3", "-c", "import httpx"}, false, throttlehttp.Silent},
		{"node", []string{"node", "-e"}, byNode, []string{"node", "-e", "fetch"}, false, throttlehttp.Draft},
	} {
		t.Run(fmt.Sprintf("%s, by proxy %t", c.name, c.proxy), func(t *testing.T) {
			t.Parallel()
			if c.need != nil && command(t, c.need...).Run() != nil {
				t.Skipf("NO %s: the proxy is NOT tested with it; scripts/need.sh installs it", strings.ToUpper(c.name))
			}
			play(t, c.program, c.script, c.proxy, c.says)
		})
	}
}

var (
	curl   = []string{"curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}\n", "--parallel", "--parallel-max", "5"}
	python = []string{"python3", "-c"}
)

// command runs a program without the proxies of the environment, and with the packages
// of scripts/need.sh.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	packages, err := filepath.Abs("../../../../.bin/python")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Environ(), "http_proxy=", "no_proxy=", "PYTHONPATH="+packages)
	return cmd
}

func play(t *testing.T, program []string, script string, proxy bool, says throttlehttp.Headers) {
	api := newFivePerSecond(says)
	s := httptest.NewServer(api)
	defer s.Close()
	e := serve(t, Config{APIs: map[string]API{"api": {URL: s.URL}}})
	target, handler := e.url+"/api", "{}"
	args := program[1:]
	if proxy {
		target, handler = s.URL, fmt.Sprintf(`{"http": %q}`, e.url)
	}
	if script != "" {
		args = append(args[:len(args):len(args)], strings.NewReplacer("TARGET", target, "HANDLER", handler).Replace(script))
	} else {
		if proxy {
			args = append(args[:len(args):len(args)], "--noproxy", "", "--proxy", e.url)
		}
		args = append(args[:len(args):len(args)], target+"/[1-10]")
	}
	cmd := command(t, append([]string{program[0]}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	if n := strings.Count(string(out), "200\n"); n != 10 || api.served.Load() != 10 {
		t.Errorf("%d of 10 were answered 200, the API served %d:\n%s", n, api.served.Load(), out)
	}
	if n := api.refused.Load(); n > map[throttlehttp.Headers]int64{throttlehttp.Draft: 3, throttlehttp.Silent: 20}[says] {
		t.Errorf("the API refused %d", n)
	}
	t.Logf("%d refusals, none seen, in %v", api.refused.Load(), time.Since(began).Round(10*time.Millisecond))
}
