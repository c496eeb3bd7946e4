package probe

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/fit"
)

// needed is the path of a program, which a variable or $PATH names. Without it
// the test fails under make integration, and else is skipped, loudly.
func needed(t *testing.T, variable, program string) string {
	t.Helper()
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: minutes of real HTTP; make integration runs it")
	}
	path, err := exec.LookPath(cmp.Or(os.Getenv(variable), program))
	switch {
	case err != nil && os.Getenv("THROTTLE_INTEGRATION") == "1":
		t.Fatalf("no %s: run scripts/need-integration.sh, which installs it, or set $%s to its path: %v", program, variable, err)
	case err != nil:
		t.Skipf("NO %s: its limiter is NOT identified: run make integration", variable)
	}
	return path
}

// started starts a server, which ends with the test, and waits until it listens.
func started(t *testing.T, address, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.Env, c.Stderr = []string{}, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(os.Interrupt)
		c.Wait()
	})
	for range 500 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s does not listen at %s", program, address)
}

// TestSoakIdentifyNginx identifies limit_req of nginx: it refuses, delays and
// then refuses, or lets bursts pass.
func TestSoakIdentifyNginx(t *testing.T) {
	program := needed(t, "NGINX", "nginx")
	for _, test := range []struct {
		rate, options string
		want          fit.Model
	}{
		{"20r/s", "", fit.Model{Kind: fit.TokenBucket, Rate: 20, Burst: 1}},
		{"20r/s", "burst=15 nodelay", fit.Model{Kind: fit.TokenBucket, Rate: 20, Burst: 16}},
		{"20r/s", "burst=15", fit.Model{Kind: fit.Delay, Rate: 20, Burst: 1}},
		{"60r/m", "burst=4 nodelay", fit.Model{Kind: fit.TokenBucket, Rate: 1, Burst: 5}},
	} {
		t.Run(test.rate+" "+test.options, func(t *testing.T) {
			at, dir := clitest.Vacant(t), t.TempDir()
			conf := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log /dev/null crit;
events { worker_connections 1024; }
http {
	access_log off; keepalive_requests 1000000;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	limit_req_zone $server_name zone=all:1m rate=%[3]s;
	server { listen %[2]s; server_name x; location / { limit_req zone=all %[4]s; empty_gif; } }
}
`, dir, at, test.rate, test.options)
			path := filepath.Join(dir, "nginx.conf")
			if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
				t.Fatal(err)
			}
			started(t, at, program, "-p", dir, "-c", path)
			o, _ := found(t, "-limit", "http://"+at+"/")
			right(t, "limit_req rate="+test.rate+" "+test.options, o, test.want)
		})
	}
}

// TestSoakIdentifyEnvoy identifies the local rate limit of Envoy, a token bucket.
func TestSoakIdentifyEnvoy(t *testing.T) {
	program := needed(t, "ENVOY", "envoy")
	at, dir := clitest.Vacant(t), t.TempDir()
	_, port, _ := net.SplitHostPort(at)
	conf := fmt.Sprintf(`static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: x
          route_config:
            virtual_hosts:
            - {name: x, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200}}]}
          http_filters:
          - name: envoy.filters.http.local_ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
              stat_prefix: x
              token_bucket: {max_tokens: 12, tokens_per_fill: 8, fill_interval: 1s}
              filter_enabled: {default_value: {numerator: 100, denominator: HUNDRED}}
              filter_enforced: {default_value: {numerator: 100, denominator: HUNDRED}}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`, port)
	path := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	started(t, at, program, "-c", path, "--concurrency", "1", "-l", "critical", "--disable-hot-restart")
	o, _ := found(t, "-limit", "http://"+at+"/")
	right(t, "local rate limit", o, fit.Model{Kind: fit.TokenBucket, Rate: 8, Burst: 12})
}
