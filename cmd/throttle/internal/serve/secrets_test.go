//go:build unix

package serve

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
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

// What is refused for a reason that passes, as a certificate that comes later, is in
// use when the reason is gone, without a change of the files.
func TestReloadTriesAgain(t *testing.T) {
	dir := folder(t, hello, "f.yaml", files)
	name, cert, key := filepath.Join(dir, "f.yaml"), filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	p := &program{names: []string{name}, log: slog.New(slog.DiscardHandler), level: new(slog.LevelVar)}
	if err := p.read(nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, strings.Replace(string(text), "127.0.0.1:0\n", fmt.Sprintf("{address: 127.0.0.1:0, tls: {cert: %s, key: %s}}\n", cert, key), 1))
	for range 2 {
		if err := p.reloadFiles(false); err == nil || p.state().OK {
			t.Fatalf("without its certificate: %v, %+v", err, p.state())
		}
	}
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	private, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	if err := p.reloadFiles(false); err != nil || !p.state().OK {
		t.Errorf("when its certificate has come: %v, %+v", err, p.state())
	}
	used := p.loaded.Load()
	if err := p.reloadFiles(false); err != nil || p.loaded.Load() != used {
		t.Errorf("files that are in use are read into use again, %v", err)
	}
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
		if _, ok := r.heard(everyPoll*4/5, []string{`"new rules"`, `"v2"`}); !ok {
			t.Error("what changes right after the start is not seen before the files are polled")
		}
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

// No error, log, page of the admin listener or metric shows a part of the password of
// a store, escaped or not, whether the program starts with it or not.
func TestStoreHidesSecrets(t *testing.T) {
	shows := func(text string) bool { return strings.Contains(text, "wOrd") || strings.Contains(text, "pAss") }
	file := func(url string) string {
		return strings.ReplaceAll(files, "{file: rules.yaml}", "{file: rules.yaml, overlay: store}") + "store: {url: '" + url + "', away: pass}\n"
	}
	for _, url := range []string{
		"redis://u:pAss/wOrd@127.0.0.1:1", "redis://u:pAss?wOrd@127.0.0.1:1", "redis://u:pAss%zwOrd@127.0.0.1:1", "redis://u:pAss,wOrd",
		"rediss+sentinel://u:pAss/wOrd@h1,h2/m", "postgres://u:pAss@wOrd@127.0.0.1:1/db", "postgres://u:pAss/wOrd@127.0.0.1:1,127.0.0.1:2/db",
		"postgres://u:pAss?wOrd@127.0.0.1:1/db", "postgres://u:pAss%zwOrd@127.0.0.1:1/db", "postgres://u:12/wOrd@127.0.0.1:1/db",
		"redisx://u:pAss@wOrd", "postgres://u:pAss wOrd@127.0.0.1:1/db",
	} {
		dir := folder(t, hello, "f.yaml", file(url), "rules.yaml", twoAnHour)
		_, errs, code := clitest.Play(t.Context(), Run, filepath.Join(dir, "f.yaml"))
		if code != 2 || shows(errs) || !strings.Contains(errs, "store.url: ") {
			t.Errorf("%s: code %d, %s; want an error without the password", url, code, errs)
		}
	}
	for _, url := range []string{
		"redis://u:pAss@wOrd@127.0.0.1:1", "redis://u:pAss#wOrd@127.0.0.1:1/3?prefix=x", "redis://u:pAss%2F%40wOrd@127.0.0.1:1,127.0.0.1:2/?cluster=true",
		"redis+sentinel://u:pAss:wOrd@127.0.0.1:1,127.0.0.1:2/m", "postgres://u:pAss#wOrd@127.0.0.1:1,127.0.0.1:2/db", "postgres://u:pAss%40%2FwOrd@127.0.0.1:1/db",
	} {
		r := start(t, folder(t, hello, "f.yaml", file(url), "rules.yaml", twoAnHour), "f.yaml")
		r.said("the store does not decide", "127.0.0.1:1")
		r.until(200, "/a/x")
		var pages strings.Builder
		for _, path := range []string{"/api/v1/status", "/api/v1/events", "/api/v1/rules", "/api/v1/overlay", "/api/v1/versions", "/metrics", "/readyz"} {
			_, page := get(t, r.admin+path, "Authorization", "Bearer "+token)
			pages.WriteString(page)
		}
		r.stop()
		if text := strings.Join(r.lines, "\n") + pages.String(); shows(text) || !strings.Contains(text, "throttle_guard_state") {
			t.Errorf("%s: its password is shown in\n%s", url, text)
		}
	}
}
