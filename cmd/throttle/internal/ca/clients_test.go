package ca

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
)

// proxy serves one that intercepts api.example.com by the authority in dir, and says what
// the requests are. Nothing is resolved for it.
func proxy(t *testing.T, dir string) (addr string) {
	t.Helper()
	target, err := intercept.ParseHost("api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	p := &intercept.Proxy{
		Authority: &intercept.Authority{Dir: dir}, Hosts: []intercept.Target{target}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s %s\n", r.Proto, r.Method, r.URL, body)
		}),
	}
	if err := p.Authority.Load(time.Now()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	t.Cleanup(func() { _ = p.Shutdown(t.Context()); server.Close() })
	return server.Listener.Addr().String()
}

// exports makes an authority and returns what 'throttle ca' says to set, for a proxy of its
// own.
func exports(t *testing.T) (dir, addr, said string, env []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "ca")
	said, errs, code := clitest.Play(t.Context(), Run, "-dir", dir, "-hosts", "api.example.com")
	if code != 0 {
		t.Fatal(errs)
	}
	addr = proxy(t, dir)
	said = strings.NewReplacer("127.0.0.1:8090", addr, "proxyPort=8090", "proxyPort="+addr[strings.LastIndexByte(addr, ':')+1:]).Replace(said)
	for line := range strings.Lines(said) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok && !strings.Contains(v, "JAVA") {
			env = append(env, v)
		}
	}
	if len(env) != 6 {
		t.Fatalf("it says to set %q", env)
	}
	return dir, addr, said, env
}

// clients are programs that POST "hello" to a URL and print the answer, and what they print.
var clients = []struct{ name, program, args, want string }{
	{"curl", "curl", "-sS --http1.1 --max-time 20 -d hello", "HTTP/1.1 POST https://api.example.com/x hello"},
	{"curl by HTTP/2", "curl", "-sS --http2 --max-time 20 -d hello", "HTTP/2.0 POST https://api.example.com/x hello"},
	{"urllib", "python3", "-c|import sys, urllib.request as u; print(u.urlopen(sys.argv[1], b'hello', 20).read().decode())", "HTTP/1.1 POST https://api.example.com/x hello"},
	{"requests", "python3", "-c|import sys, requests; print(requests.post(sys.argv[1], b'hello', timeout=20).text)", "HTTP/1.1 POST https://api.example.com/x hello"},
	{"httpx", "python3", "-c|import importlib.util as i, sys, httpx; print(httpx.Client(http2=bool(i.find_spec('h2'))).post(sys.argv[1], content=b'hello', timeout=20).text)", " POST https://api.example.com/x hello"},
	{"aiohttp", "python3", "-c|" + `import sys, asyncio, aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as s:
        async with s.post(sys.argv[1], data=b'hello') as a: print(await a.text())
asyncio.run(main())`, "HTTP/1.1 POST https://api.example.com/x hello"},
	{"node", "node", "-e|" + `
const [, url] = process.argv, proxy = new URL(process.env.HTTPS_PROXY)
require("http").request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: new URL(url).host + ":443"}).on("connect", (_, socket) => {
  const agent = new (require("https").Agent)({socket})
  require("https").request(url, {agent, method: "POST"}, a => a.pipe(process.stdout)).on("error", e => console.log(e.message)).end("hello")
}).end()`, "HTTP/1.1 POST https://api.example.com/x hello"},
	{"fetch of node", "node", "-e|" + `fetch(process.argv[1], {method: "POST", body: "hello"}).then(a => a.text()).then(console.log)`, "HTTP/1.1 POST https://api.example.com/x hello"},
}

// TestClients: programs of several languages use the proxy and trust the authority with
// nothing but what 'throttle ca' says to set.
func TestClients(t *testing.T) {
	_, _, _, env := exports(t)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			program := clitest.Program(t, cmp.Or(os.Getenv(strings.ToUpper(c.program)), c.program))
			missing := needs(t, program, c.name)
			if missing != "" {
				t.Skip(missing)
			}
			args := strings.SplitN(c.args, "|", 2)
			if len(args) == 1 {
				args = strings.Fields(c.args)
			}
			got := play(t, env, program, append(args, "https://api.example.com/x")...)
			if !strings.Contains(got, c.want) {
				t.Errorf("it prints %s, want %s", got, c.want)
			}
		})
	}
}

// needs says what a client lacks that is no program; empty if it is there.
func needs(t *testing.T, program, name string) string {
	switch name {
	case "requests", "httpx", "aiohttp":
		if !strings.Contains(play(t, nil, program, "-c", "import "+name+"; print('is there')"), "is there") {
			return "NO " + strings.ToUpper(name) + ": the lines of throttle ca are NOT tested with it; scripts/need.sh installs requests and httpx"
		}
	case "fetch of node":
		out, _ := exec.CommandContext(t.Context(), program, "-p", `process.versions.node.split(".")[0] >= 24`).Output()
		if strings.TrimSpace(string(out)) != "true" {
			return "fetch knows HTTPS_PROXY since Node.js 24"
		}
	}
	return ""
}

// play runs a program with that environment besides its own, and returns what it prints.
func play(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	packages, err := filepath.Abs("../../../../.bin/python") // of scripts/need.sh
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range os.Environ() { // NO_PROXY and the like of this machine
		if name, _, _ := strings.Cut(strings.ToLower(v), "="); !strings.HasSuffix(name, "_proxy") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, "PYTHONPATH="+packages), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return string(out)
}

// TestBundle: by the bundle, OpenSSL trusts the authority and those of the system; by ca.pem
// alone, the first.
func TestBundle(t *testing.T) {
	openssl := clitest.Program(t, "openssl")
	dir, addr, _, _ := exports(t)
	for _, file := range []string{intercept.BundleFile, intercept.CertificateFile} {
		got := play(t, nil, openssl, "s_client", "-proxy", addr, "-connect", "api.example.com:443", "-servername", "api.example.com", "-verify_return_error", "-verify_hostname", "api.example.com", "-CAfile", filepath.Join(dir, file), "-no-CApath")
		if !strings.Contains(got, "Verify return code: 0 (ok)") {
			t.Errorf("by %s: %s", file, got)
		}
	}
	file, roots := SystemRoots(dir)
	if roots == nil {
		t.Skip("this system has no file of authorities")
	}
	got := play(t, nil, openssl, "verify", "-no-CApath", "-CAfile", filepath.Join(dir, intercept.BundleFile), first(t, file))
	if !strings.Contains(got, ": OK") {
		t.Errorf("an authority of the system by the bundle: %s", got)
	}
}

// first writes the first certificate of a file into one of its own.
func first(t *testing.T, file string) string {
	t.Helper()
	one, _, _ := strings.Cut(read(t, file), "-----END CERTIFICATE-----")
	name := filepath.Join(t.TempDir(), "one.pem")
	if err := os.WriteFile(name, []byte(one[strings.Index(one, "-----BEGIN"):]+"-----END CERTIFICATE-----\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestJava: the lines for Java make a store by which its client trusts the proxy.
func TestJava(t *testing.T) {
	if os.Getenv("THROTTLE_INTEGRATION") != "1" {
		t.Skip("takes a JVM; THROTTLE_INTEGRATION=1 runs it")
	}
	java, sh := clitest.Program(t, "java"), clitest.Program(t, "sh")
	dir, _, said, _ := exports(t)
	source := filepath.Join(dir, "Get.java")
	if err := os.WriteFile(source, []byte(`public class Get { public static void main(String[] a) throws Exception {
  System.out.println(new String(new java.net.URI(a[0]).toURL().openStream().readAllBytes())); } }`), 0o644); err != nil {
		t.Fatal(err)
	}
	script := said[strings.Index(said, "  keytool"):] + "\n" + java + " " + source + " https://api.example.com/x\n"
	home := strings.TrimSpace(play(t, nil, sh, "-c", "dirname $(dirname $(readlink -f "+java+"))"))
	if got := play(t, []string{"JAVA_HOME=" + home}, sh, "-ec", script); !strings.Contains(got, "HTTP/1.1 GET https://api.example.com/x") {
		t.Errorf("it prints %s", got)
	}
}
