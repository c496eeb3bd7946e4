package intercept

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestPublicSuffix: no authority is for a public suffix of a registry; those of companies, which
// may be hosts of APIs, are known.
func TestPublicSuffix(t *testing.T) {
	for text, want := range map[string]error{
		"com": errSuffix, "COM.": errSuffix, "com:8443": errSuffix, "co.uk": errSuffix, "anything.ck": errSuffix, "xn--p1ai": errSuffix,
		"api.github.com": nil, "github.com": nil, "www.ck": nil, "localhost": nil, "gitlab": nil, "api.internal": nil,
		"127.0.0.1": nil, "[::1]:8443": nil, "github.io": nil, "s3.amazonaws.com": nil,
	} {
		if _, err := ParsePermitted(text); err != want {
			t.Errorf("ParsePermitted(%q): %v, want %v", text, err, want)
		}
	}
	all := []string{"api.github.com", "com", "github.io", "localhost", "127.0.0.1", "::1", "s3.amazonaws.com", "me.github.io"}
	if got := Shared(all); !slices.Equal(got, []string{"github.io", "s3.amazonaws.com"}) {
		t.Errorf("Shared(%q) = %q", all, got)
	}
}

// TestReadPublicSuffix: an authority of before that is for a public suffix is refused.
func TestReadPublicSuffix(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, hosts := range [][]string{{"api.example.com"}, {"api.example.com", "co.uk"}} {
		dir := t.TempDir()
		c, err := NewCertificate(key, hosts, time.Now())
		if err := errors.Join(err, WriteKey(dir, key), WriteCertificate(dir, c, nil)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(dir); (err == nil) != (len(hosts) == 1) || err != nil && !errors.Is(err, errSuffix) {
			t.Errorf("Read, for %q: %v", hosts, err)
		}
	}
}
