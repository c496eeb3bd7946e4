package outcome

import (
	"cmp"
	"slices"
	"time"
)

// top counts the keys that come most often, in bounded memory (the Space-Saving
// algorithm): a key that finds no room takes the place of the rarest, and its
// count, as which it may be too high by. With no more distinct keys than room, all
// counts are exact. The zero value has room for one.
type top struct {
	room  int
	index map[string]int // into heap
	heap  []counter      // the rarest first
}

// A counter counts one key.
type counter struct {
	key         string // the rule, a zero byte, and the values
	rule        string
	n           int64
	extra       int64 // at most so much of n is of other keys
	first, last time.Time
}

// add counts a refusal by a rule, of the key with these values.
func (t *top) add(rule, values string, at time.Time) {
	key := rule + "\x00" + values
	if i, ok := t.index[key]; ok {
		t.heap[i].n++
		t.heap[i].last = at
		t.down(i)
		return
	}
	if t.index == nil {
		t.index = map[string]int{}
	}
	if len(t.heap) < max(t.room, 1) {
		t.heap = append(t.heap, counter{key: key, rule: rule, n: 1, first: at, last: at})
		t.index[key] = len(t.heap) - 1
		t.up(len(t.heap) - 1)
		return
	}
	rarest := &t.heap[0]
	delete(t.index, rarest.key)
	*rarest = counter{key: key, rule: rule, n: rarest.n + 1, extra: rarest.n, first: at, last: at}
	t.index[key] = 0
	t.down(0)
}

func (t *top) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.index[t.heap[i].key], t.index[t.heap[j].key] = i, j
}

func (t *top) up(i int) {
	for i > 0 && t.heap[i].n < t.heap[(i-1)/2].n {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (t *top) down(i int) {
	for {
		least := i
		for _, j := range [...]int{2*i + 1, 2*i + 2} {
			if j < len(t.heap) && t.heap[j].n < t.heap[least].n {
				least = j
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

// most returns the counters of the keys that came most often, at most n of them.
func (t *top) most(n int) []counter {
	all := slices.SortedFunc(slices.Values(t.heap), func(a, b counter) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.key, b.key))
	})
	return all[:min(n, len(all))]
}
