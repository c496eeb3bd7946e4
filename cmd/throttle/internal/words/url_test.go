package words

import "testing"

// TestBrackets: an address of IPv6 without brackets is told from what is merely mistyped.
func TestBrackets(t *testing.T) {
	for text, bare := range map[string]bool{
		"http://::1:3000/": true, "::1:3000": true, "::1": true, "http://fe80::1": true, "[::1": true, "h2c://2001:db8::7:80/path": true,
		"http://[::1]:3000/": false, "[::1]:80": false, "127.0.0.1:8080": false, "host:80:90": false, "http://u:p@::1:3000/": false,
		":8080": false, "http://host/a:b:c": false, "": false,
	} {
		if got := Brackets(text) != ""; got != bare {
			t.Errorf("Brackets(%q) is something: %t, want %t", text, got, bare)
		}
	}
}
