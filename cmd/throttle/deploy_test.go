package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
