package throttlesql

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// plan finds out which of a must be sent, and in which order: that of the keys,
// so that no two Takes lock each other out. A limit that remembers nothing is
// not sent; one that allows nothing refuses the rest.
func (s *Store) plan(a []limit.Ask, few *fewItems) request {
	r := request{asks: a, sent: few.sent[:0]}
	if len(a) <= len(few.items) {
		r.items = few.items[:len(a)]
	} else {
		r.items = make([]item, len(a))
	}
	for i := range a {
		if !remembers(&a[i].Limit) {
			_, d := limit.Take(limit.State{}, time.Time{}, a[i])
			r.refused = r.refused || !d.OK
			continue
		}
		r.items[i].limit, r.items[i].key = s.limits.get(a[i].Limit), short(a[i].Key)
		r.sent = append(r.sent, i)
	}
	if items := r.items; len(r.sent) > 1 {
		slices.SortFunc(r.sent, func(i, j int) int { return strings.Compare(items[i].key, items[j].key) })
	}
	return r
}

const longestKey = 256 // bytes

// short returns the key itself, or a digest of a long one. It digests a key that
// looks like a digest too, so that no key can pose as another.
func short(key string) string {
	if len(key) <= longestKey && !(len(key) == 1+sha256.Size && key[0] == 0) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "\x00" + string(sum[:])
}
