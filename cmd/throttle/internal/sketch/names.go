package sketch

import (
	"strings"
	"sync"
)

// names numbers the names of rules from 1, up to maxRules; further ones are 0,
// without a name. The zero value is ready.
type names struct {
	mu      sync.RWMutex
	numbers map[string]uint16
	list    []string
}

// number returns that of the rule of a key.
func (n *names) number(key string) uint16 {
	rule, _, _ := strings.Cut(key, "/")
	n.mu.RLock()
	i, known := n.numbers[rule]
	n.mu.RUnlock()
	if known {
		return i
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, known := n.numbers[rule]; known || len(n.list) >= maxRules {
		return i
	}
	if n.numbers == nil {
		n.numbers = make(map[string]uint16)
	}
	rule = strings.Clone(rule) // the key may be long
	n.list = append(n.list, rule)
	n.numbers[rule] = uint16(len(n.list))
	return n.numbers[rule]
}

// name returns the name with a number.
func (n *names) name(i uint16) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if i == 0 || int(i) > len(n.list) {
		return ""
	}
	return n.list[i-1]
}
