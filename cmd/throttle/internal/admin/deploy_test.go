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

// tool is a program that checks files, from its variable, the PATH or .bin. The test
// is skipped where there is none, but in 'make integration', which installs all
// except what belongs to the system.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{cmp.Or(os.Getenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_"))), name), "../../../../.bin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	if os.Getenv("THROTTLE_INTEGRATION") != "" && name != "systemd-analyze" {
		t.Fatalf("scripts/need-integration.sh installs %s", name)
	}
	t.Skipf("NO %s: what it checks in deploy/ is NOT checked; run make integration", strings.ToUpper(name))
	return ""
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

// base is what kustomize builds of a folder.
func base(t *testing.T, folder string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, "kustomize"), "build", folder).CombinedOutput()
	if err != nil {
		t.Fatalf("kustomize build: %v: %s", err, out)
	}
	return string(out)
}

// TestKustomize: the base builds, its pods are confined, and its probes and ports
// are those of the program.
func TestKustomize(t *testing.T) {
	out := base(t, deploy+"kubernetes")
	for _, want := range []string{
		"readOnlyRootFilesystem: true", "runAsNonRoot: true", "allowPrivilegeEscalation: false", "- ALL", "automountServiceAccountToken: false",
		"path: /readyz", "path: /livez", "kind: PodDisruptionBudget", "kind: NetworkPolicy", "type: RuntimeDefault",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the base has no %s", want)
		}
	}
	// An empty selector would be all pods of the namespace, the store and the service too.
	if want := "  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: throttle\n"; !strings.Contains(out, want) {
		t.Errorf("the NetworkPolicy is not for the pods of throttle alone:\n%s", out)
	}
	// The rules of the names of files make a new version roll out.
	if name := regexp.MustCompile(`name: (throttle-[a-z0-9]{10})\n`).FindStringSubmatch(out); name == nil || strings.Count(out, name[1]) != 2 {
		t.Errorf("the Deployment does not use the ConfigMap by its digest:\n%s", out)
	}
}

// TestKubernetesSchemas: all that the base makes is of the schemas of the Kubernetes
// API, without a field that they do not have, and faults in it are found.
func TestKubernetesSchemas(t *testing.T) {
	out, validate := base(t, deploy+"kubernetes"), tool(t, "kubernetes-validate")
	check := func(text string) (string, error) {
		path := filepath.Join(t.TempDir(), "all.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err := exec.CommandContext(t.Context(), validate, "--strict", path).CombinedOutput()
		return string(said), err
	}
	said, err := check(out)
	if n := strings.Count(said, " passed "); err != nil || n != strings.Count(out, "\nkind: ") || n < 6 {
		t.Errorf("kubernetes-validate: %v: %s", err, said)
	}
	for good, bad := range map[string]string{
		"readOnlyRootFilesystem: true": "readOnlyRootFileSystem: true", "containerPort: 6070": `containerPort: "6070"`, "maxUnavailable: 1": "maxUnavailible: 1",
	} {
		if said, err := check(strings.Replace(out, good, bad, 1)); err == nil || !strings.Contains(out, good) || !strings.Contains(said, "ERROR") {
			t.Errorf("with %s: %s", bad, said)
		}
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
	hadolint := tool(t, "hadolint")
	if out, err := exec.CommandContext(t.Context(), hadolint, deploy+"container/Dockerfile").CombinedOutput(); err != nil {
		t.Errorf("hadolint: %v: %s", err, out)
	}
	worse := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(worse, []byte(strings.Replace(text, "WORKDIR /src\n", "RUN cd /src\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), hadolint, worse).CombinedOutput(); err == nil || !strings.Contains(string(out), "DL3003") {
		t.Errorf("hadolint finds 'RUN cd' good: %v: %s", err, out)
	}
}
