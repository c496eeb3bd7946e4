package importenvoy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const longestName = 64

// name returns the name of a rule, made of the domain, the keys and the patterns. It
// does not depend on other descriptors, unless those have the same: a renamed rule
// starts with unused limits.
func (t *translation) name(domain string, path []step) string {
	whole, apart, foreign := domain, domain, false // apart tells all apart
	for _, s := range path {
		foreign = foreign || s.foreign()
		whole, apart = whole+"."+s.key, apart+"\n"+s.key
		if s.rank() != bare {
			whole, apart = whole+"_"+s.pattern, apart+"\t"+s.pattern
		}
	}
	name := plain(whole)
	split := t.served && strings.Count(whole, ".") > len(path) // it may be the text of another path too
	if foreign || split || name != whole || len(name) > longestName || t.names[name] {
		short := strings.TrimRight(name[:min(len(name), longestName-9)], "-_.")
		for name = short + digest(apart); t.names[name]; name = short + digest(apart) {
			apart += "\n"
		}
	}
	t.names[name] = true
	return name
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "-" + hex.EncodeToString(sum[:4])
}

// plain is text with '-' in place of what names do not have.
func plain(text string) string {
	var b strings.Builder
	gap := false
	for _, r := range text {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			b.WriteRune(r)
			gap = false
		} else if !gap {
			b.WriteByte('-')
			gap = true
		}
	}
	return b.String()
}
