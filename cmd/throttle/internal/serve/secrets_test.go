//go:build unix

package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that the next start would refuse is refused, for what needs a restart too.
func TestReloadChecks(t *testing.T) {
	dir := folder(t, hello, "f.yaml", files, "rules.yaml", twoAnHour)
	good, err := os.ReadFile(filepath.Join(dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, dir, "f.yaml")
	r.write("f.yaml", strings.Replace(string(good), "127.0.0.1:0\n", "{address: 127.0.0.1:0, tls: {cert: no.pem, key: no.pem}}\n", 1))
	r.said("not reloaded; what was in use stays", "f.yaml:5:", "gateway.listen", "no.pem")
	r.write("f.yaml", string(good))
	r.said(`"reloaded"`)
}

// Logs and the status show neither what the URL of the rules has in its query nor
// keys of callers.
func TestLogsHideSecrets(t *testing.T) {
	for _, show := range []bool{false, true} {
		text := strings.ReplaceAll(files, "{file: rules.yaml}", "{file: rules.yaml, url: 'http://me:wOrd@127.0.0.1:1/?token=wOrd'}")
		text = strings.ReplaceAll(text, "admin: {", fmt.Sprintf("admin: {show_keys: %t, ", show))
		r := start(t, folder(t, hello, "f.yaml", text, "rules.yaml", twoAnHour), "f.yaml")
		r.said("no rules from there", `"source":"url"`)
		r.write("rules.yaml", "version: v2\nrules: {name: all, key: header:K, limits: 2/h, overrides: [{key: aLice, limits: 3/h}]}\n")
		r.said(`"new rules"`, `"v2"`)
		_, status := get(t, r.admin+"/api/v1/status", "Authorization", "Bearer "+token)
		if r.count("wOrd") > 0 || strings.Contains(status, "wOrd") || !strings.Contains(status, "refused") {
			t.Errorf("the log or the status shows the query of a URL:\n%s\n%s", strings.Join(r.lines, "\n"), status)
		}
		if got := r.count("aLice") > 0; got != show {
			t.Errorf("show_keys is %t, and that the log shows a key is %t", show, got)
		}
		r.stop()
	}
}
