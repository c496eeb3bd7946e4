package throttlesql

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

const (
	mostAsks   = 1000
	longestKey = 256 // bytes
)

// A question is one Take.
type question struct {
	asks    []limit.Ask
	limits  []*prepared // of the asks; nil where nothing is remembered
	sent    []int       // those of the asks that PostgreSQL is asked, by key
	keys    []string    // of the asks, as they are in the table
	refused bool        // by a limit that allows nothing

	at     time.Time
	ok     bool // all that was sent passes
	states [][4]int64

	few struct { // for the slices above: most questions are about one key or two
		limits [2]*prepared
		sent   [2]int
		keys   [2]string
	}
}

// check refuses what no Store answers.
func (q *question) check(d []limit.Decision) error {
	switch {
	case len(q.asks) != len(d):
		return errLengths
	case len(q.asks) > mostAsks:
		return fmt.Errorf("throttlesql: asked for %d keys at once: at most %d are answered", len(q.asks), mostAsks)
	case len(q.asks) == 1:
		return nil
	}
	keys := make([]string, len(q.asks))
	for i := range q.asks {
		keys[i] = q.asks[i].Key
	}
	slices.Sort(keys)
	for i := range keys {
		if i > 0 && keys[i] == keys[i-1] {
			return fmt.Errorf("throttlesql: two asks about the key %.100q", keys[i])
		}
	}
	return nil
}

// prepare tells what is to be sent: a limit that remembers nothing is not.
func (q *question) prepare(known *limits) {
	q.limits, q.sent, q.keys = q.few.limits[:], q.few.sent[:0], q.few.keys[:]
	if len(q.asks) > len(q.limits) {
		q.limits, q.keys = make([]*prepared, len(q.asks)), make([]string, len(q.asks))
	}
	for i := range q.asks {
		a := &q.asks[i]
		if keepsNothing(a.Limit) {
			_, d := limit.Take(limit.State{}, time.Time{}, *a)
			q.refused = q.refused || !d.OK
			continue
		}
		q.limits[i], q.keys[i] = known.get(a.Limit), short(a.Key)
		q.sent = append(q.sent, i)
	}
	if len(q.sent) > 1 {
		slices.SortFunc(q.sent, func(i, j int) int { return strings.Compare(q.keys[i], q.keys[j]) })
	}
}

// short is the key itself, or a digest of a long one. A key that looks like a
// digest is digested as well, so that none can pose as another.
func short(key string) string {
	if len(key) <= longestKey && !(len(key) == 1+sha256.Size && key[0] == 0) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "\x00" + string(sum[:])
}

// arguments are those of take.sql: the literals of four arrays.
func (q *question) arguments(carried map[int]carry, now int64) (keys, lims, olds, numbers string) {
	var k, l, o, n []byte
	for i, at := range q.sent {
		k, l = element(k, i, hexOf(q.keys[at])), element(l, i, q.limits[at].text)
		c, isCarried := carried[at]
		if isCarried {
			o = element(o, i, c.from)
		} else {
			o = append(opened(o, i), "NULL"...)
		}
		for j, number := range q.limits[at].numbers(&q.asks[at], q.refused, c, now) {
			n = number64(n, i+j, number)
		}
	}
	return string(append(k, '}')), string(append(l, '}')), string(append(o, '}')), string(append(n, '}'))
}

// hexOf is a key as PostgreSQL reads bytes.
func hexOf(key string) string { return `\x` + hex.EncodeToString([]byte(key)) }

// opened appends what comes before element i of the literal of an array.
func opened(b []byte, i int) []byte {
	if i == 0 {
		return append(b, '{')
	}
	return append(b, ',')
}

// element appends element i, a text.
func element(b []byte, i int, text string) []byte {
	b = append(opened(b, i), '"')
	for j := range len(text) {
		if text[j] == '"' || text[j] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, text[j])
	}
	return append(b, '"')
}

// number64 appends element i, a number.
func number64(b []byte, i int, n int64) []byte { return strconv.AppendInt(opened(b, i), n, 10) }
