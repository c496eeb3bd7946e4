package throttleredis

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/limit"
)

const (
	mostSlots = 16384 // a Redis Cluster has as many
	// longName is the length from which on a key is known by its hash.
	longName = 200
)

// slots is into how many the keys are spread.
func (s *Store) slots() int { return min(max(s.Slots, 1), mostSlots) }

// prefix is what all names begin with.
func (s *Store) prefix() string {
	if s.Prefix == "" {
		return "throttle:"
	}
	return s.Prefix
}

// slot is the one of a key: that of what stands in its first braces, as in a
// Redis Cluster, or of all of it. It is the same in every process: FNV-1a.
func (s *Store) slot(key string) int {
	n := s.slots()
	if n == 1 {
		return 0
	}
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 32
	return int(h % uint64(n))
}

// fence is the name of the fence of a slot. The number in braces is all that a
// Redis Cluster looks at, whatever braces the key itself has.
func (s *Store) fence(slot int) string { return s.prefix() + "{" + strconv.Itoa(slot) + "}" }

// name is that of a key in Redis. Logs have names of their own: they are read
// in another way than all else.
func name(fence, key string, kind limit.Kind) string {
	mark := ":"
	if kind == limit.SlidingLog {
		mark = "="
	}
	if len(key) >= longName {
		sum := sha256.Sum256([]byte(key))
		return fence + mark + "#" + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if strings.HasPrefix(key, "#") { // not to be taken for a hash
		mark += "#"
	}
	return fence + mark + key
}

// oneSlot is the slot that all keys share, or an error.
func (s *Store) oneSlot(a []limit.Ask) (slot int, err error) {
	slot = s.slot(a[0].Key)
	for i := range a[1:] {
		if s.slot(a[i+1].Key) != slot {
			return 0, fmt.Errorf("throttleredis: keys %.100q and %.100q are in different slots; put what they have in common in braces, as in {user}:day, or set Slots to 1",
				a[0].Key, a[i+1].Key)
		}
	}
	return slot, nil
}

// distinct is an error if two asks are about one key.
func distinct(a []limit.Ask) error {
	if len(a) > 16 {
		seen := make(map[string]bool, len(a))
		for i := range a {
			if seen[a[i].Key] {
				return twice(a[i].Key)
			}
			seen[a[i].Key] = true
		}
		return nil
	}
	for i := range a {
		for j := range i {
			if a[i].Key == a[j].Key {
				return twice(a[i].Key)
			}
		}
	}
	return nil
}

func twice(key string) error { return fmt.Errorf("throttleredis: two asks about the key %.100q", key) }
