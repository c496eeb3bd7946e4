package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrittenFiles: no file that is written may be one that is read, or another that is
// written, by whatever name.
func TestWrittenFiles(t *testing.T) {
	real := t.TempDir()
	for _, name := range []string{"rules.yaml", "key.pem", "secret0123456789"} {
		if err := os.WriteFile(filepath.Join(real, name), []byte("0123456789abcdef"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"folder": ".", "link.yaml": "rules.yaml", "latest": "s"} {
		if err := os.Symlink(to, filepath.Join(real, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ more, want string }{
		{"store: {url: 'memory:', snapshot: rules.yaml}\nrules: {file: rules.yaml}", "3:35: store.snapshot: would replace the file of rules.file; name another file"},
		{"store: {url: 'memory:', snapshot: link.yaml}\nrules: {file: rules.yaml}", "3:35: store.snapshot: would replace the file of rules.file; "},
		{"store: {url: 'memory:', snapshot: s}\nrules: {url: 'http://a', keep: folder/s}", "4:32: rules.keep: would replace the file of store.snapshot; "},
		{"store: {url: 'memory:', snapshot: s}\nrules: {url: 'http://a', keep: latest}", "4:32: rules.keep: would replace the file of store.snapshot; "},
		{"rules: {file: rules.yaml, url: 'http://a', keep: DIR/rules.yaml}", "3:50: rules.keep: would replace the file of rules.file; "},
		{"rules: {url: 'http://a', keep: f.yaml}", "3:32: rules.keep: would replace DIR/f.yaml; name another file"},
		{"envoy: {listen: ':81'}\nrules: {xds: {server: 'h:1', node: n, keep: f.yaml}}", "4:45: rules.xds.keep: would replace DIR/f.yaml; name another file"},
		{"envoy: {listen: ':81'}\nrules: {xds: {server: 'h:1', node: n, keep: key.pem, tls: {cert: c.pem, key: key.pem}}}", "4:45: rules.xds.keep: would replace the file of rules.xds.tls; "},
		{"rules: {overlay: folder/../f.yaml}", "3:18: rules.overlay: would replace DIR/f.yaml; "},
		{"rules: {url: 'http://a', keep: o, overlay: ./o}", "3:44: rules.overlay: would replace the file of rules.keep; "},
		{"store: {url: 'redis://a'}\nrules: {overlay: store, overlay_keep: f.yaml}", "4:39: rules.overlay_keep: would replace DIR/f.yaml; "},
		{"store: {url: 'memory:', snapshot: key.pem}\nadmin: {listen: {address: '127.0.0.1:1', tls: {cert: cert.pem, key: key.pem}}}", "3:35: store.snapshot: would replace the file of admin.listen.tls; "},
		{"store: {url: 'memory:', snapshot: secret0123456789}\nadmin: {listen: '127.0.0.1:1', token: '${file:secret0123456789}'}", "3:35: store.snapshot: would replace a file of ${file:}; "},
	} {
		name := filepath.Join(real, "f.yaml")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Parse([]Named{{name, []byte(route + strings.ReplaceAll(c.more, "DIR", real) + "\n")}}, lookup)
		if want := name + ":" + strings.ReplaceAll(c.want, "DIR", real); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.more, err, want)
		}
	}
	good := "store: {url: 'memory:', snapshot: s}\nrules: {file: rules.yaml, url: 'http://a', keep: k, overlay: o}\n"
	if _, err := Parse([]Named{{filepath.Join(real, "f.yaml"), []byte(route + good)}}, lookup); err != nil {
		t.Errorf("%s\ngot %v, want no error", good, err)
	}
}
