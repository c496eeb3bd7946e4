package check

import (
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// certificateUntil is a certificate of 90 days, and its key.
func certificateUntil(t *testing.T, end time.Time) (cert, key string) {
	t.Helper()
	c, k := clitest.Certificate(t, end.AddDate(0, 0, -90), end)
	return string(c), string(k)
}

// TestCertificates: a certificate of a listener or for an upstream that has expired, or
// will within 30 days, is warned of with its place, and the files are good; a key of
// another certificate is an error.
func TestCertificates(t *testing.T) {
	now := time.Now()
	gone, goneKey := certificateUntil(t, now.AddDate(0, 0, -2))
	soon, soonKey := certificateUntil(t, now.Add(10*24*time.Hour+time.Hour))
	fine, fineKey := certificateUntil(t, now.AddDate(0, 0, 60))
	dir := folder(t, "gone.pem", gone, "gone.key", goneKey, "soon.pem", soon, "soon.key", soonKey, "fine.pem", fine, "fine.key", fineKey,
		"all.yaml", `version: 1
gateway:
  listen:
    - {address: "127.0.0.1:0", tls: {cert: gone.pem, key: gone.key}}
    - {address: "127.0.0.1:1", tls: {cert: fine.pem, key: fine.key}}
  routes: {to: "https://127.0.0.1:9", tls: {cert: soon.pem, key: soon.key}}
admin: {listen: {address: "127.0.0.1:2", tls: {cert: soon.pem, key: soon.key}}}
`, "other.yaml", "version: 1\nadmin: {listen: {address: '127.0.0.1:2', tls: {cert: soon.pem, key: fine.key}}}\n")
	out, errs, code := play(t, dir, "all.yaml")
	if code != 0 || !strings.HasPrefix(out, "all.yaml: good: ") || strings.Count(errs, "\n") != 3 {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		"warning: all.yaml:7:54: admin.listen.tls.cert: soon.pem expires on " + now.Add(10*24*time.Hour+time.Hour).UTC().Format(time.DateOnly) + ", in 10 days\n",
		"warning: all.yaml:4:44: gateway.listen[0].tls.cert: gone.pem has expired on " + now.AddDate(0, 0, -2).UTC().Format(time.DateOnly) + "\n",
		"warning: all.yaml:6:51: gateway.routes.tls.cert: soon.pem expires on ",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("%s\nwant %s", errs, want)
		}
	}
	if out, _, code := play(t, dir, "-json", "all.yaml"); code != 0 || strings.Count(out, " in 10 days") != 2 || !strings.Contains(out, `"warnings": [`) {
		t.Errorf("-json: code %d\n%s", code, out)
	}
	if _, errs, code := play(t, dir, "other.yaml"); code != 2 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "private key does not match public key") {
		t.Errorf("a key of another: code %d\n%s", code, errs)
	}
}
