package stores

import (
	"strings"
	"testing"
	"time"
)

// TestRedisURLHidesPassword: no error and no name of a store shows a part of a
// password, not even of one that is not escaped as it must be.
func TestRedisURLHidesPassword(t *testing.T) {
	for _, text := range []string{
		"redis://u:pAss/wOrd@host", "redis://u:pAss?wOrd@host", "redis://u:pAss?slots=wOrd@host/1", "redis://u:12/wOrd@host/",
		"redis://u:pAss@wOrd@host/x", "redis+sentinel://:pAss/wOrd@host", "redis://u:pAss%zwOrd@host", "redis://host?%zwOrd",
		"redis://host/?wOrd=1", "redis://host/wOrd", "redis://host/?slots=wOrd", "redis://u:pAss/wOrd", "redises://u:pAss/wOrd@host",
	} {
		_, err := Open(t.Context(), text, Options{Command: "serve", Timeout: time.Second})
		if err == nil || strings.Contains(err.Error(), "wOrd") || strings.Contains(err.Error(), "pAss") || strings.Contains(err.Error(), "12/") {
			t.Errorf("Open(%q): %v, want an error without the password", text, err)
		}
	}
	for text, want := range map[string]string{"redis://u:p%2Fs@host/2": "redis://host:6379/2", "redis://u:p@s@host/?prefix=a%40b": "redis://host:6379"} {
		s, err := Open(t.Context(), text, Options{Command: "serve", Timeout: time.Second})
		if err != nil {
			t.Errorf("Open(%q): %v", text, err)
			continue
		}
		if s.Close(); s.Name != want {
			t.Errorf("Open(%q) is named %q, want %q", text, s.Name, want)
		}
	}
}
