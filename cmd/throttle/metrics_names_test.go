//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// deployed is all that the alerts and the dashboard of deploy ask Prometheus.
func deployed(t *testing.T) string {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile("../../deploy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := string(read("prometheus/alerts.yaml"))
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(read("grafana/throttle.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, x := range p.Targets {
			text += "\n" + x.Expr
		}
	}
	return text
}

var (
	metricName = regexp.MustCompile(`\b(?:throttle|process|go)_[a-z_]*[a-z]\b`)
	labelName  = regexp.MustCompile(`^throttle_(name|version|go|rule|reason|state|outcome|verdict|priority|degraded)$`)
	labelTest  = regexp.MustCompile(`(throttle_[a-z]+)(=~|!~|=|!=)"([a-z|-]*)"`)
)

// TestNamesExist: each metric, label and value that the files of deploy name is one
// that the program serves.
func TestNamesExist(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	redis := clitest.Vacant(t)
	defer startRedis(t, redis)()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"serve.yaml": `version: 1
store: {url: "redis://${REDIS}", lease: 100ms}
rules: {file: rules.yaml}
gateway: {listen: "${LISTEN}", routes: {to: "http://${UPSTREAM}"}}
admin: {listen: "${ADMIN}", token: "${TOKEN}"}
drain: {delay: 0s}
`,
		"rules.yaml": "rules: [{name: all, limits: 3/day}, {name: tried, shadow: true, limits: 0/s}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := startInstance(t, filepath.Join(dir, "serve.yaml"), redis, upstream.Listener.Addr().String())
	g.passes(5, "acme")
	scraped := g.api("GET", "/metrics", "")
	text, names := deployed(t), map[string]bool{}
	for _, name := range metricName.FindAllString(text, -1) {
		names[name] = true
	}
	for name := range names {
		switch {
		case labelName.MatchString(name):
			if !strings.Contains(scraped, name+`="`) {
				t.Errorf("no metric has the label %s", name)
			}
		case !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(scraped):
			t.Errorf("there is no metric %s", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d names were found", len(names))
	}
	// Of these, a scrape has only those that happened.
	happen := []string{"unlimited", "within", "allowed", "killed", "away", "gone", "over", "busy", "denied", "no-key", "undecided", "shed"}
	for _, m := range labelTest.FindAllStringSubmatch(text, -1) {
		for value := range strings.SplitSeq(m[3], "|") {
			if !strings.Contains(scraped, fmt.Sprintf("%s=%q", m[1], value)) && !(m[1] == "throttle_reason" && slices.Contains(happen, value)) {
				t.Errorf("%s: no metric has that value", m[0])
			}
		}
	}
	if err := g.end(); err != nil {
		t.Errorf("it ended by %v: %s", err, g.log)
	}
}
