package importer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/importer"
)

const edge = `domain: edge
descriptors:
  - key: remote_address
    detailed_metric: true
    rate_limit: {unit: second, requests_per_unit: 5}
`

const edgeRules = `# Rules for the descriptors of Envoy, by 'throttle import envoy'.
rules:
  - name: edge.remote_address # edge.yaml:3:5
    match: {domains: edge, descriptor: [remote_address]}
    key: descriptor
    limits: 5/s fixed-window
`

const edgeJSON = `{
  "rules": [
    {
      "name": "edge.remote_address",
      "match": {
        "domains": [
          "edge"
        ],
        "descriptor": [
          "remote_address"
        ]
      },
      "key": "descriptor",
      "limits": [
        "5/s fixed-window"
      ]
    }
  ]
}
`

const warned = "warning: edge.yaml:4:5: detailed_metric is about metrics alone; left out\n"

// inFolder makes the files in a folder of their own, and goes there.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImport(t *testing.T) {
	inFolder(t, map[string]string{
		"edge.yaml": edge, "bom.yaml": "\ufeff" + strings.ReplaceAll(edge, "\n", "\r\n"), "old.yaml": "rules: []\n", "old.json": "{\n  \"version\": 1\n}\n",
		"bad.yaml": "domain: bad\ndescriptors:\n- {key: x, rate_limit: {unit: second, requests_per_unit: 1.5}}\n",
		"tab.yaml": "domain: tab\ndescriptors:\n\t- key: x\n",
		"long":     "domain: d\n#" + strings.Repeat("x", 1<<20),
	})
	for _, x := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"envoy edge.yaml", edgeRules, warned, 0},
		{"envoy -json edge.yaml", edgeJSON, warned, 0},
		{"envoy bom.yaml", strings.ReplaceAll(edgeRules, "edge.yaml", "bom.yaml"), strings.ReplaceAll(warned, "edge.yaml", "bom.yaml"), 0},
		{"envoy -o - edge.yaml", edgeRules, warned, 0},
		{"", "", "throttle: import: write 'throttle import envoy FILE...'\n", 2},
		{"envoy", "", "throttle: import: no file; write 'throttle import envoy FILE...', as in config/*.yaml\n", 2},
		{"kong a.yaml", "", "throttle: import: kong is not known; write 'throttle import envoy FILE...'\n", 2},
		{"envoy edge.yaml bad.yaml", "", "throttle: bad.yaml:3:58: requests_per_unit: 1.5 is not a whole number that fits; write one, or put text in quotes\n", 2},
		{"envoy tab.yaml", "", "throttle: tab.yaml:3:1: not YAML: found character that cannot start any token; indent with spaces, not with a tab\n", 2},
		{"envoy long", "", "throttle: long:1:1: longer than 1 MiB\n", 2},
		{"envoy" + strings.Repeat(" long", 17), "", "throttle: import: the files up to long have more than 16 MiB; import fewer at once\n", 2},
		{"envoy away.yaml", "", "throttle: import: open away.yaml: no such file or directory\n", 2},
		{"envoy .", "", "throttle: import: . is a directory; name its files, as in *.yaml\n", 2},
		{"envoy -", "", "throttle: -:1:1: empty; write domain: NAME and descriptors\n", 2},
		{"envoy -o old.yaml edge.yaml", "", "throttle: -o: old.yaml is there and was not written by import envoy; name another file, or remove it\n", 2},
		{"envoy -json -o old.json edge.yaml", "", "throttle: -o: old.json is there and was not written by import envoy; name another file, or remove it\n", 2},
		{"envoy -o edge.yaml edge.yaml", "", "throttle: -o: edge.yaml is read, and would be written over; name another file\n", 2},
		{"envoy edge.yaml bom.yaml", "", "throttle: bom.yaml:1:9: domain edge is that of edge.yaml too; write one file for each domain, or -merge for the parts of one\n", 2},
		{"envoy -merge edge.yaml bom.yaml", "", "throttle: bom.yaml:3:5: remote_address is there twice, first at edge.yaml:3:5; the reference looks both up as one text\n", 2},
		{"envoy -x edge.yaml", "", "throttle: import: flag -x is not known; run 'throttle import -h'\n", 2},
	} {
		stdout, stderr, code := clitest.Play(t.Context(), importer.Run, strings.Fields(x.args)...)
		if stdout != x.stdout || stderr != x.stderr || code != x.code {
			t.Errorf("throttle import %s: code %d, stdout\n%s\nstderr\n%s\nwant %d\n%s\n%s", x.args, code, stdout, stderr, x.code, x.stdout, x.stderr)
		}
	}
}

// TestImportToFile: the file is written whole, written again, and kept where the
// import fails.
func TestImportToFile(t *testing.T) {
	inFolder(t, map[string]string{"edge.yaml": edge, "bad.yaml": "domain: d\ndescriptors: [{key: x, oops: 1}]\n"})
	for range 2 {
		clitest.Play(t.Context(), importer.Run, "envoy", "-json", "-o", "rules.json", "edge.yaml")
		if stdout, stderr, code := clitest.Play(t.Context(), importer.Run, "envoy", "-o", "rules.yaml", "edge.yaml"); code != 0 || stdout != "" || stderr != warned {
			t.Fatalf("code %d, stdout %q, stderr %q; want 0, nothing, %q", code, stdout, stderr, warned)
		}
	}
	if _, _, code := clitest.Play(t.Context(), importer.Run, "envoy", "-o", "rules.yaml", "edge.yaml", "bad.yaml"); code != 2 {
		t.Errorf("a bad file: code %d, want 2", code)
	}
	for name, want := range map[string]string{"rules.yaml": edgeRules, "rules.json": edgeJSON} {
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text, want)
		}
	}
}
