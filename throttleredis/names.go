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
	maxSlots = 16384 // a Redis Cluster has as many
	// longName is the length, in bytes, from which on a key is named by its hash.
	longName = 200
)

// slotCount returns the number of slots that keys are spread over.
func (s *Store) slotCount() int { return min(max(s.Slots, 1), maxSlots) }

// prefix returns what all names begin with.
func (s *Store) prefix() string {
	if s.Prefix == "" {
		return "throttle:"
	}
	return s.Prefix
}

// slotOf returns the slot of a key: as in a Redis Cluster, that of the text in
// its first braces, or of all of it. It is the same in every process: FNV-1a.
func (s *Store) slotOf(key string) int {
	n := s.slotCount()
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

// commonSlot returns the slot of all keys that are sent, or an error if they have
// several.
func (s *Store) commonSlot(r *request) (n int, err error) {
	first := -1
	for i := range r.asks {
		switch slot := s.slotOf(r.asks[i].Key); {
		case r.items[i].limit == nil:
		case first < 0:
			first, n = i, slot
		case slot != n:
			return 0, fmt.Errorf("throttleredis: %w: keys %.100q and %.100q are in different slots; put what they have in common in braces, as in {user}:day, or set Slots to 1",
				limit.ErrAsks, r.asks[first].Key, r.asks[i].Key)
		}
	}
	return n, nil
}

// fenceName returns the name of the fence of slot n. A Redis Cluster looks at the
// number in braces only, whatever braces a key has.
func (s *Store) fenceName(n int) string { return s.prefix() + "{" + strconv.Itoa(n) + "}" }

// keyName returns the name of a key in Redis. Logs have names of their own, as
// their values have another format.
func keyName(fence, key string, kind limit.Kind) string {
	mark := ":"
	if kind == limit.SlidingLog {
		mark = "="
	}
	if len(key) >= longName {
		sum := sha256.Sum256([]byte(key))
		return fence + mark + "#" + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if strings.HasPrefix(key, "#") { // or it could pose as a hash
		mark += "#"
	}
	return fence + mark + key
}
