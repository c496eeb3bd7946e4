package integration

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/integration/rig"
)

// A shell runs the program as a shell would.
type shell struct {
	program string
	env     []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{program: filepath.Join(t.TempDir(), "throttle"), env: os.Environ()}
	c := exec.Command("go", "build", "-o", s.program, ".")
	c.Dir = filepath.Join("..", "cmd", "throttle")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return s
}

func (s *shell) take(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), s.program, append([]string{"take", "-timeout", "20s"}, args...)...)
	c.Env = s.env
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// TestTake: one decision from the shell, by each URL that the program knows.
func TestTake(t *testing.T) {
	s := newShell(t)
	locked := rig.Redis(t)
	locked.Must(t, "CONFIG", "SET", "requirepass", "p@ss%")
	redis := rig.SharedRedis(t)
	proxy, roots := terminateTLS(t, redis.Addr)
	s.env = append(s.env, "SSL_CERT_FILE="+roots)
	watched := rig.Sentinel(t, 1)
	for name, url := range map[string]string{
		"redis":    "redis://" + redis.Addr + "/3?prefix=shell:&batch=-1",
		"password": "redis://:p%40ss%25@" + locked.Addr,
		"TLS":      "rediss://" + proxy + "?prefix=tls:",
		"cluster":  "redis://" + strings.Join(rig.SharedCluster(t).Addrs(), ",") + "/?cluster=true",
		"sentinel": "redis+sentinel://" + strings.Join(watched.Addrs(), ",") + "/" + watched.Name,
		"postgres": rig.SharedPostgres(t).Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" {
				_, stderr, code := s.take(t, "-store", url, "2/h", "k")
				if code != 1 || !strings.Contains(stderr, "call Create") || !strings.Contains(stderr, "which 'throttle take -create' makes") {
					t.Errorf("without tables: code %d, stderr %q", code, stderr)
				}
				s.take(t, "-store", url, "-create", "2/h", "k", "0")
			}
			for i, want := range []struct {
				code int
				line string
			}{
				{0, `^allowed: 1 of k; 1 of 2 remain, all of them in 30m0s\n$`},
				{0, `^allowed: 1 of k; 0 of 2 remain, all of them in .*s\n$`},
				{4, `^denied: 1 of k: come again in (29m|30m).*s; 0 of 2 remain.*\n$`},
			} {
				stdout, stderr, code := s.take(t, "-store", url, "2/h", "k")
				if code != want.code || stderr != "" || !regexp.MustCompile(want.line).MatchString(stdout) {
					t.Errorf("%d: code %d, stdout %q, stderr %q; want code %d, %s", i+1, code, stdout, stderr, want.code, want.line)
				}
			}
			stdout, stderr, code := s.take(t, "-store", url, "-json", "-bench", "-callers", "4", "-for", "30ms", "1000000/s", "bench")
			var got struct{ Decisions, Errors int64 }
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || got.Decisions == 0 || got.Errors != 0 {
				t.Errorf("-bench: code %d, stdout %s, stderr %s", code, stdout, stderr)
			}
			if strings.Contains(stdout+stderr, "p@ss") {
				t.Errorf("the password is shown: %s", stdout)
			}
		})
	}
	if _, stderr, code := s.take(t, "-store", "redis://"+locked.Addr, "2/h", "k"); code != 1 || !strings.Contains(stderr, "nothing was charged: NOAUTH") {
		t.Errorf("without the password: code %d, stderr %q", code, stderr)
	}
	if _, stderr, code := s.take(t, "-store", "rediss://"+redis.Addr, "2/h", "k"); code != 1 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("TLS to a server without: code %d, stderr %q", code, stderr)
	}
}

// terminateTLS is the address where a server without TLS is found with it, and a
// file of the certificate by which it is known.
func terminateTLS(t *testing.T, addr string) (proxy, roots string) {
	t.Helper()
	known := httptest.NewUnstartedServer(nil)
	known.StartTLS()
	known.Close()
	roots = filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: known.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			go join(front, addr)
		}
	}()
	return l.Addr().String(), roots
}

// join connects front with addr until either side closes.
func join(front net.Conn, addr string) {
	defer front.Close()
	back, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer back.Close()
	go func() {
		defer front.Close()
		defer back.Close()
		io.Copy(back, front)
	}()
	io.Copy(front, back)
}
