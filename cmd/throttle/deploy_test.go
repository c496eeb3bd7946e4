package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
)

// TestDeployedFiles: 'throttle check' finds the files of deploy good.
func TestDeployedFiles(t *testing.T) {
	for name, value := range map[string]string{"REDIS": "redis", "UPSTREAM": "app:80", "LISTEN": ":8080", "ADMIN": ":6070", "TOKEN": "0123456789abcdef"} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	secrets := filepath.Join(dir, "secrets")
	for name, text := range map[string]string{"token": "0123456789abcdef\n", "read-token": "fedcba9876543210\n"} {
		if err := os.MkdirAll(secrets, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"systemd/gateway.yaml", "kubernetes/gateway.yaml", "two-instances/serve.yaml"} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "/run/secrets/throttle", secrets)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, code := play(t.Context(), "check", path)
		if code != 0 || !strings.Contains(out, ": good: ") {
			t.Errorf("throttle check %s: code %d, %s%s", name, code, out, errs)
		}
	}
}

// TestSystemdInstalls: the commands in throttle.service install each file beside it.
func TestSystemdInstalls(t *testing.T) {
	const dir = "../../deploy/systemd"
	text, err := os.ReadFile(filepath.Join(dir, "throttle.service"))
	if err != nil {
		t.Fatal(err)
	}
	installed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "#   install "); ok {
			for _, name := range strings.Fields(rest) {
				installed[name] = true
			}
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !installed[f.Name()] {
			t.Errorf("no command installs %s", f.Name())
		}
	}
}

// TestDeployedMounts: containers are given folders, as a file that is mounted by itself
// stays the old one when it is replaced by renaming, and is never read again.
func TestDeployedMounts(t *testing.T) {
	for _, name := range []string{"container/Dockerfile", "two-instances/compose.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), ":/etc/throttle:ro") || strings.Contains(string(text), ".yaml:/") {
			t.Errorf("%s mounts no folder at /etc/throttle, or a file by itself:\n%s", name, text)
		}
	}
}

// TestDeployedEnvoyGateway: with the variables, the files and the patch of Envoy Gateway the
// container serves the file that is mounted, and the probes find its admin listener.
func TestDeployedEnvoyGateway(t *testing.T) {
	const from = "../../deploy/envoy-gateway/"
	for name, value := range map[string]string{
		"REDIS_URL": "redis.redis-system.svc.cluster.local:6379", "CONFIG_GRPC_XDS_SERVER_URL": "envoy-gateway:18001",
		"CONFIG_GRPC_XDS_NODE_ID": "envoy-ratelimit", "THROTTLE_TOKEN": "0123456789abcdef",
	} {
		t.Setenv(name, value)
	}
	text, err := os.ReadFile(from + "serve.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := clitest.Certificate(t, time.Now().Add(-time.Hour), time.Now().Add(1000*24*time.Hour))
	path := filepath.Join(dir, "serve.yaml")
	for name, data := range map[string][]byte{"ca.crt": cert, "tls.crt": cert, "tls.key": key, "serve.yaml": bytes.ReplaceAll(text, []byte("/certs"), []byte(dir))} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := play(t.Context(), "check", path)
	if want := ": good: envoy on :8081; admin on :6070; rules by xDS from envoy-gateway:18001, which was not asked\n"; code != 0 || errs != "" || !strings.HasSuffix(out, want) {
		t.Errorf("throttle check: code %d, %s%s; want %s", code, out, errs, want)
	}
	manifest, err := os.ReadFile(from + "envoy-gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"command: [/throttle]", "args: [serve, /etc/throttle/serve.yaml]", "mountPath: /etc/throttle,", "containerPort: 6070",
		"livenessProbe: {httpGet: {path: /livez, port: 6070}}", "readinessProbe: {httpGet: {path: /readyz, port: 6070}}", "name: THROTTLE_TOKEN",
	} {
		if !bytes.Contains(manifest, []byte(want)) {
			t.Errorf("envoy-gateway.yaml has not %s", want)
		}
	}
	if _, err := tree.Parse("envoy-gateway.yaml", manifest); err != nil {
		t.Error(err)
	}
}
