//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEnvoyDocs: Envoy takes the configuration of docs/envoy.md, and throttle its files.
func TestEnvoyDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, seen := t.TempDir(), ""
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		name, ok := strings.CutPrefix(strings.Fields(block)[0]+strings.Trim(strings.Fields(block)[1], ":"), "#")
		if !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		seen += name + " "
	}
	if !strings.HasPrefix(seen, "serve.yaml rules.yaml envoy.yaml ") {
		t.Fatalf("docs/envoy.md has the files %s", seen)
	}
	if stdout, stderr, code := play(t.Context(), "check", filepath.Join(dir, "serve.yaml"), "-domain", "edge", "-descriptor", "api_key=acme,method=POST"); code != 0 || stderr != "" || !strings.Contains(stdout, "rule per-key has the least left") {
		t.Errorf("throttle check: code %d, %s%s", code, stdout, stderr)
	}
	if out, err := exec.CommandContext(t.Context(), envoyProgram(t), "--mode", "validate", "-l", "error", "-c", filepath.Join(dir, "envoy.yaml")).CombinedOutput(); err != nil {
		t.Errorf("envoy --mode validate: %v\n%s", err, out)
	}
}
