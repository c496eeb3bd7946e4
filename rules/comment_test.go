package rules_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// Comments are as if they were not there, and the places of errors are those in
// the text with them.
func TestComments(t *testing.T) {
	good := "\ufeff// everybody\r\n{ /* a \" quote, ü\n and a line */ \"rules\": [ // none\n{\"name\": \"a\", \"match\": {\"paths\": \"/a//*\"}, \"limits\": \"1/s\"}] }//"
	good = strings.Replace(good, "/a//*", "/*/*", 1)
	c, err := rules.Parse([]byte(good))
	if err != nil {
		t.Fatalf("Parse(%q): %v", good, err)
	}
	plain, err := rules.Parse([]byte(`{"rules": [{"name": "a", "match": {"paths": "/*/*"}, "limits": "1/s"}]}`))
	if err != nil || c.Version() != plain.Version() {
		t.Errorf("with comments the version is %s, without %s, %v; want them equal", c.Version(), plain.Version(), err)
	}
	for _, x := range []struct{ text, want string }{
		{"// x\n{\"rules\": [], /* ü */ \"rule\": 1}", `2:23: rule: unknown field`},
		{"\ufeff{\"rules\": [], \"rule\": 1}", `1:15: rule: unknown field`},
		{"{\"rules\": [] /* x", `1:14: a comment without end`},
		{"{\"rules\": [] / 1}", `1:14: not JSON`},
		{"{\"rules\": [] // }", `1:18: not JSON: unexpected end`},
		{"{\"rules\": [] # x\n}", `1:14: not JSON`},
		{"/*/ {\"rules\": []}", `1:1: a comment without end`},
	} {
		_, err := rules.Parse([]byte(x.text))
		var e *rules.Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "rules: "+x.want) {
			t.Errorf("Parse(%q)\n got %v\nwant rules: %s", x.text, err, x.want)
		}
	}
}

// FuzzComments: a comment between any two tokens changes nothing, and no text
// makes reading it fail otherwise than by an error.
func FuzzComments(f *testing.F) {
	f.Add(`{"rules": [{"name": "a", "limits": "1/s"}]}`, " // \" \n", 10)
	f.Add(`{"rules": "\"/*"}`, "/**/", 1)
	f.Add(`{"rules": [{"name": "a", "limits": "1/s"}]}`, "*\xf1/0000", 1)
	f.Fuzz(func(t *testing.T, text, comment string, at int) {
		rules.Parse([]byte(comment + text))        // no panic
		comment = strings.ToValidUTF8(comment, "") // first, as it may bring a * and a / together
		if len(comment) > 100 || strings.Contains(comment, "*/") || !strings.HasPrefix(text, "{") {
			return
		}
		_, one := rules.Parse([]byte("{" + text[1:]))
		_, two := rules.Parse([]byte("{/*" + comment + "*/" + text[1:]))
		if (one == nil) != (two == nil) {
			t.Errorf("%q: %v, with a comment %v", text, one, two)
		}
	})
}

// Networks that are everybody together are as bad as one that is.
func TestEverybodyTogether(t *testing.T) {
	for _, x := range []struct {
		trusted string
		bad     bool
	}{
		{`["0.0.0.0/1", "128.0.0.0/1"]`, true},
		{`["128.0.0.0/2", "0.0.0.0/1", "192.0.0.0/3"]`, true}, // all unicast
		{`["0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/1"]`, true},
		{`["::/1", "8000::/1"]`, true},
		{`["2000::/4", "3000::/4"]`, true},
		{`"2000::/3"`, true},
		{`["0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/4"]`, false},
		{`["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]`, false},
		{`["2000::/4", "3000::/5"]`, false},
	} {
		_, err := rules.Parse([]byte(fmt.Sprintf(`{"rules": [], "proxies": {"trusted": %s}}`, x.trusted)))
		if (err != nil) != x.bad || x.bad && !strings.Contains(err.Error(), "everybody") {
			t.Errorf("trusted %s: %v, want refused: %v", x.trusted, err, x.bad)
		}
	}
	many := strings.Repeat(`"10.0.0.1", `, 999) + `"10.0.0.2"`
	if _, err := rules.Parse([]byte(`{"rules": [], "proxies": {"trusted": [` + many + `]}}`)); err != nil {
		t.Error(err)
	}
}

// Every host of a link is a client of its own, and a deny list knows it.
func TestLinkLocal(t *testing.T) {
	c := mustParse(t, `{"deny": "fe80::bad", "ipv4_prefix": 24, "rules": [
		{"name": "r", "key": "address", "limits": "9/s", "overrides": [{"key": "fe80::2", "limits": "1/s"}, {"key": "10.1.2.0/24", "limits": "1/s"}]}]}`)
	for from, want := range map[string]string{
		"fe80::1%eth0": "fe80::1", "fe80::2%eth1": "fe80::2", "2001:db8::1": "2001:db8::", "10.1.2.3": "10.1.2.0", "::ffff:10.1.2.3": "10.1.2.0",
	} {
		if got := keysOf(t, c, rules.Request{Address: netip.MustParseAddr(from)})[0]; got != "r/0/address="+want {
			t.Errorf("key of %s = %s, want %s", from, got, want)
		}
	}
	_, err := rules.Parse([]byte(`{"rules": [], "deny": "fe80::1%eth0"}`))
	if err == nil || !strings.Contains(err.Error(), "write fe80::1,") {
		t.Errorf("an address with a zone: %v, want to be told how to write it", err)
	}
}
