//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestEnvoyDocs: Envoy takes the configuration of docs/envoy.md and docs/envoy-quota.md, and
// throttle their files.
func TestEnvoyDocs(t *testing.T) {
	for _, x := range []struct{ page, descriptor string }{
		{"envoy.md", "api_key=acme,method=POST"},
		{"envoy-quota.md", "api_key=acme,name=api"},
	} {
		dir := docFiles(t, x.page)
		if stdout, stderr, code := play(t.Context(), "check", filepath.Join(dir, "serve.yaml"), "-domain", "edge", "-descriptor", x.descriptor); code != 0 || stderr != "" || !strings.Contains(stdout, "rule per-key has the least left") {
			t.Errorf("%s: throttle check: code %d, %s%s", x.page, code, stdout, stderr)
		}
		if out, err := exec.CommandContext(t.Context(), envoyProgram(t), "--mode", "validate", "-l", "error", "-c", filepath.Join(dir, "envoy.yaml")).CombinedOutput(); err != nil {
			t.Errorf("%s: envoy --mode validate: %v\n%s", x.page, err, out)
		}
	}
}

// TestXDSDocs: the file of a management server in docs/envoy.md is good.
func TestXDSDocs(t *testing.T) {
	dir := docFiles(t, "envoy.md")
	cert, key := clitest.Certificate(t, time.Now().Add(-time.Hour), time.Now().Add(1000*24*time.Hour))
	for name, data := range map[string][]byte{"ca.crt": cert, "tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := play(t.Context(), "check", filepath.Join(dir, "xds.yaml"))
	if code != 0 || errs != "" || !strings.Contains(out, "rules by xDS from envoy-gateway:18001") {
		t.Errorf("throttle check: code %d, %s%s", code, out, errs)
	}
}

// docFiles writes the files that a page shows, and returns their folder.
func docFiles(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
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
		t.Fatalf("docs/%s has the files %s", page, seen)
	}
	return dir
}
