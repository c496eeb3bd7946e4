//go:build unix

package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/xdstest"
)

// servedFile is a file with rules of a management server.
func servedFile(addr, more string) string {
	return fmt.Sprintf("version: 1\nrules: {xds: {server: %q, node: envoy-ratelimit, keep: kept%s}}\nenvoy: {listen: 127.0.0.1:0}\nadmin: {listen: 127.0.0.1:0}\ndrain: {delay: 0s}\n", addr, more)
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > 20*time.Second {
			t.Fatal(what + ": not in 20 s")
		}
	}
}

// TestXDS: rules of a management server decide what Envoy asks. When they change, what was
// used stays used; what is bad is refused, and said; a file has the last word.
func TestXDS(t *testing.T) {
	s := xdstest.Start(t, "")
	s.Set("1", xdstest.PerHour("edge", 2))
	r := start(t, folder(t, nil, "f.yaml", strings.Replace(servedFile(s.Addr, ""), "{xds", "{file: rules.yaml, xds", 1), "rules.yaml", "rules: []\n"), "f.yaml")
	if refused, got := s.Answered("1"), r.asking("jane", 3); refused != "" || got != "oox" {
		t.Errorf("at the start: refused %q, %s", refused, got)
	}
	s.Set("2", xdstest.PerHour("another", 1), xdstest.PerHour("edge", 3))
	if refused, got := s.Answered("2"), r.asking("jane", 2)+r.asking("john", 1); refused != "" || got != "oxo" {
		t.Errorf("with one more an hour and another domain: refused %q, %s", refused, got)
	}
	s.Set("3", xdstest.PerHour("edge", 100), xdstest.Wrong("another"))
	if refused, got := s.Answered("3"), r.asking("jane", 1); !strings.HasPrefix(refused, "rules: another descriptors[0].rate_limit: ") || got != "x" {
		t.Errorf("a bad version: refused %q, %s", refused, got)
	}
	r.said("the rules stay as they are", `"source":"xds"`, s.Addr, "another descriptors[0].rate_limit: rate_limit: no unit; write second")
	_, metrics := get(t, r.admin+"/metrics")
	for _, want := range []string{`config_last_reload_successful{.*"rules".*} 0`, `rules_refreshes_total{.*"xds".*"failed".*} [1-9]`, `rules_age_seconds{.*"xds".*} 0`} {
		if !regexp.MustCompile(want).MatchString(metrics) {
			t.Errorf("the metrics have not %s", want)
		}
	}
	s.Set("4", xdstest.PerHour("edge", 4))
	for refused := "?"; refused != ""; {
		refused = s.Answered("4")
	}
	r.said("the rules can be read again", `"source":"xds"`)
	if got := r.asking("jane", 2); got != "ox" {
		t.Errorf("a good version: %s", got)
	}
	stated := &descriptorpb.RateLimitDescriptor{
		Entries: []*descriptorpb.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}},
		Limit:   &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 6, Unit: typepb.RateLimitUnit_HOUR},
	}
	if got := r.askingBy(stated, 7); got != "oooooox" {
		t.Errorf("with a limit of 6 that Envoy states: %s", got)
	}
	r.write("rules.yaml", "rules: [{name: edge.user, match: {domains: edge, descriptor: user}, key: descriptor, limits: 6/h fixed-window}]\n")
	eventually(t, "the file replaces the rule", func() bool { return r.asking("jane", 1) == "o" })
	if got := r.asking("jane", 2); got != "ox" {
		t.Errorf("with a rule of the same name in the file: %s", got)
	}
	if code := r.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	kept, err := os.ReadFile(filepath.Join(r.dir, "kept"))
	if want := `"edge.user"`; err != nil || !bytes.Contains(kept, []byte(want)) {
		t.Errorf("kept: %v, %s; want %s", err, kept, want)
	}
}

// TestXDSAway: without its management server the program starts, with what was kept or not
// ready, and follows the server once it is there.
func TestXDSAway(t *testing.T) {
	s := xdstest.Start(t, "")
	s.Stop()
	dir := folder(t, nil, "f.yaml", servedFile(s.Addr, ""))
	r := start(t, dir, "f.yaml")
	r.said("no rules from there: they limit nobody", `"source":"xds"`, "connection refused")
	if status, body := get(t, r.admin+"/readyz"); status != 503 || r.asking("jane", 3) != "ooo" {
		t.Errorf("without rules: readyz %d %s", status, body)
	}
	again := xdstest.Start(t, s.Addr)
	again.Set("1", xdstest.PerHour("edge", 2))
	if refused := again.Answered("1"); refused != "" {
		t.Errorf("refused: %s", refused)
	}
	if status, body := get(t, r.admin+"/readyz"); status != 200 || r.asking("jane", 3) != "oox" {
		t.Errorf("with rules: readyz %d %s", status, body)
	}
	r.stop()
	again.Stop()
	r = start(t, dir, "f.yaml")
	if status, body := get(t, r.admin+"/readyz"); status != 200 || r.asking("jane", 3) != "oox" {
		t.Errorf("with what was kept: readyz %d %s", status, body)
	}
	r.said("the rules stay as they are", `"source":"xds"`, "connection refused")
}

// TestXDSByTLS: the server shows a certificate that is trusted, and gets one.
func TestXDSByTLS(t *testing.T) {
	of := httptest.NewTLSServer(nil)
	of.Close()
	pair := of.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	var shown atomic.Bool
	s := xdstest.Start(t, "", grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if !bytes.Equal(raw[0], pair.Certificate[0]) {
				return errors.New("another certificate")
			}
			shown.Store(true)
			return nil
		},
	})))
	s.Set("1", xdstest.PerHour("edge", 2))
	for _, x := range []struct{ tls, says string }{
		{", tls: {ca: cert.pem, cert: cert.pem, key: key.pem, server_name: example.com}", ""},
		{", tls: {ca: cert.pem, cert: cert.pem, key: key.pem, server_name: other.example}", "valid for example.com"},
		{", tls: {ca: cert.pem, server_name: example.com}", "certificate required|broken pipe|connection reset"},
		{", tls: {}", "certificate signed by unknown authority"},
		{"", "it ended the connection|connection reset|EOF|error reading server preface"},
	} {
		shown.Store(false)
		r := start(t, folder(t, nil, "f.yaml", servedFile(s.Addr, x.tls), "cert.pem", cert, "key.pem", key), "f.yaml")
		if x.says == "" {
			if got := r.asking("jane", 3); got != "oox" || !shown.Load() {
				t.Errorf("%s: %s, a certificate shown: %t", x.tls, got, shown.Load())
			}
		} else if line := r.said("no rules from there", `"source":"xds"`); !regexp.MustCompile(x.says).MatchString(line) {
			t.Errorf("%s: %s, want %s", x.tls, line, x.says)
		}
		r.stop()
	}
}

// TestXDSFiles: a file of TLS that is not there is refused at the start and by a check.
func TestXDSFiles(t *testing.T) {
	dir := folder(t, nil, "f.yaml", servedFile("127.0.0.1:1", ", tls: {ca: no.pem}"))
	name := filepath.Join(dir, "f.yaml")
	var errs bytes.Buffer
	want := name + ":2:78: rules.xds.tls: open " + filepath.Join(dir, "no.pem") + ": no such file or directory"
	if err := Run(t.Context(), []string{name}, nil, &errs, &errs); err == nil || exit.Code(err, &errs) != 2 || !strings.Contains(errs.String(), want) {
		t.Errorf("Run = %v, %s; want %s", err, &errs, want)
	}
	all, err := config.Read([]string{name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse(all, variables)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(f); err == nil || err.Error() != want {
		t.Errorf("Check = %v, want %s", err, want)
	}
}

// TestXDSTooMany: where a file has no room on top of what a server sends, the program starts
// all the same, with the rules of the server.
func TestXDSTooMany(t *testing.T) {
	s := xdstest.Start(t, "")
	many := xdstest.PerHour("edge", 2)
	for i := range 999 {
		many.Descriptors = append(many.Descriptors, &ratelimitpb.RateLimitDescriptor{Key: fmt.Sprint("k", i), RateLimit: many.GetDescriptors()[0].GetRateLimit()})
	}
	s.Set("1", many)
	dir := folder(t, nil, "f.yaml", strings.Replace(servedFile(s.Addr, ""), "{xds", "{file: rules.yaml, xds", 1), "rules.yaml", "rules: [{name: more, limits: 1/s}]\n")
	r := start(t, dir, "f.yaml")
	r.said("the rules of the file do not fit on top of those of the management server", "more than 1000 rules")
	if got := r.asking("jane", 3); got != "oox" {
		t.Errorf("with the rules of the server: %s", got)
	}
	s.Set("2", xdstest.PerHour("edge", 2))
	s.Answered("2")
	r.write("rules.yaml", "rules: [{name: more, limits: 2/s}]\n")
	r.said("the rules can be read again", `"source":"file"`)
	r.stop()
	write(t, filepath.Join(dir, "rules.yaml"), "rules: [{name: more, limits: 1/x}]\n")
	var errs bytes.Buffer
	if err := Run(t.Context(), []string{filepath.Join(dir, "f.yaml")}, nil, &errs, &errs); exit.Code(err, &errs) != 2 {
		t.Errorf("a bad file: %v, %s", err, &errs)
	}
}

// TestXDSEnds: nothing of the connection to a management server outlives the program, nor
// a start that fails.
func TestXDSEnds(t *testing.T) {
	s := xdstest.Start(t, "")
	s.Set("1", xdstest.PerHour("edge", 2))
	ended := func(when string) {
		t.Helper()
		all := make([]byte, 1<<20)
		if all = all[:runtime.Stack(all, true)]; bytes.Contains(all, []byte("xds.(*Client).Run")) {
			t.Errorf("after %s the client still runs", when)
		}
	}
	dir := folder(t, nil, "f.yaml", servedFile(s.Addr, ""), "taken.yaml", strings.Replace(servedFile(s.Addr, ""), "envoy: {listen: 127.0.0.1:0}", "envoy: {listen: '"+s.Addr+"'}", 1))
	start(t, dir, "f.yaml").stop()
	ended("the end")
	told := false
	(&sources{end: func() { told = true }}).run(t.Context())
	if !told {
		t.Error("the end of the sources does not end the client")
	}
	if err := Run(t.Context(), []string{filepath.Join(dir, "taken.yaml")}, nil, io.Discard, io.Discard); err == nil {
		t.Error("a socket that another has: no error")
	}
	ended("a start that fails")
}
