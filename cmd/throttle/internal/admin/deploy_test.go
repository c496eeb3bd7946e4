package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const deploy = "../../../../deploy/"

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dashboard is what there is to check of a Grafana dashboard.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, RefID string }
	}
}

// expressions are all that the dashboard asks Prometheus.
func (d *dashboard) expressions() (all []string) {
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	for _, p := range d.Panels {
		for _, x := range p.Targets {
			all = append(all, variables.Replace(x.Expr))
		}
	}
	return all
}

// TestDashboard: the panels do not overlap and have numbers and titles of their
// own.
func TestDashboard(t *testing.T) {
	var d dashboard
	decode(t, readFile(t, deploy+"grafana/throttle.json"), &d)
	taken := map[[2]int]string{}
	seen := map[string]bool{}
	for _, p := range d.Panels {
		if g := p.GridPos; g.X+g.W > 24 || g.W < 1 || g.H < 1 || len(p.Targets) == 0 || seen[p.Title] || seen[fmt.Sprint(p.ID)] {
			t.Errorf("panel %d %q: %+v", p.ID, p.Title, p)
		}
		seen[p.Title], seen[fmt.Sprint(p.ID)] = true, true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("panels %q and %q overlap", taken[at], p.Title)
				}
				taken[at] = p.Title
			}
		}
	}
}

// TestPromtool has Prometheus check the alerts, by their tests, and the questions
// of the dashboard.
func TestPromtool(t *testing.T) {
	tool, dir := promtool(t), t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	run("check", "rules", deploy+"prometheus/alerts.yaml")
	run("test", "rules", deploy+"prometheus/alerts_test.yaml")
	var d dashboard
	decode(t, readFile(t, deploy+"grafana/throttle.json"), &d)
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var all []rule
	for i, x := range d.expressions() {
		all = append(all, rule{fmt.Sprint("panel:", i), x})
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": all}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "dashboard.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run("check", "rules", path)
}

// tool is a program that checks files, or the test is skipped.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_"))), name))
	if err != nil {
		t.Skipf("NO %s: what it checks in deploy/ is NOT checked", strings.ToUpper(name))
	}
	return path
}

// TestSystemd: systemd takes the units without a word, and finds the service well
// confined.
func TestSystemd(t *testing.T) {
	analyze, dir := tool(t, "systemd-analyze"), t.TempDir()
	self, err := os.Executable() // verify wants a program that exists
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"throttle.service", "throttle.socket"} {
		text := strings.ReplaceAll(readFile(t, deploy+"systemd/"+name), "/usr/local/bin/throttle", self)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", filepath.Join(dir, "throttle.service"), filepath.Join(dir, "throttle.socket")).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), analyze, "security", "--offline=yes", "--threshold=20", filepath.Join(dir, "throttle.service")).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: more than 2.0 of 10: %v: %s", err, out[max(0, len(out)-400):])
	}
}

// TestKustomize: the base builds, its pods are confined, and its probes and ports
// are those of the program.
func TestKustomize(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), tool(t, "kubectl"), "kustomize", deploy+"kubernetes").CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v: %s", err, out)
	}
	for _, want := range []string{
		"readOnlyRootFilesystem: true", "runAsNonRoot: true", "allowPrivilegeEscalation: false", "- ALL", "automountServiceAccountToken: false",
		"path: /readyz", "path: /livez", "kind: PodDisruptionBudget", "kind: NetworkPolicy", "type: RuntimeDefault",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the base has no %s", want)
		}
	}
	// The rules of the names of files make a new version roll out.
	if name := regexp.MustCompile(`name: (throttle-[a-z0-9]{10})\n`).FindSubmatch(out); name == nil || strings.Count(string(out), string(name[1])) != 2 {
		t.Errorf("the Deployment does not use the ConfigMap by its digest:\n%s", out)
	}
	validate, err := exec.LookPath(cmp.Or(os.Getenv("KUBERNETES_VALIDATE"), "kubernetes-validate"))
	if err != nil {
		t.Logf("only built, as there is no kubernetes-validate: %v", err)
		return
	}
	path := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), validate, "--strict", path).CombinedOutput(); err != nil {
		t.Errorf("kubernetes-validate: %v: %s", err, out)
	}
}

// TestContainer: hadolint finds nothing in the recipe, which ends on an empty image,
// as nobody.
func TestContainer(t *testing.T) {
	text := readFile(t, deploy+"container/Dockerfile")
	_, last, _ := strings.Cut(text, "FROM scratch\n")
	if !strings.Contains(last, "USER 65532:65532\n") || strings.Contains(last, "RUN ") || !strings.Contains(text, "CGO_ENABLED=0") {
		t.Errorf("the image is\n%s", last)
	}
	if out, err := exec.CommandContext(t.Context(), tool(t, "hadolint"), deploy+"container/Dockerfile").CombinedOutput(); err != nil {
		t.Errorf("hadolint: %v: %s", err, out)
	}
}
