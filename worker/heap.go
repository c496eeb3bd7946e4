package worker

// heap is a priority queue: first is the element that is before all others.
type heap[T any] struct {
	all []T
}

func (h *heap[T]) len() int { return len(h.all) }

func (h *heap[T]) first() T { return h.all[0] }

func (h *heap[T]) push(x T, before func(a, b T) bool) {
	h.all = append(h.all, x)
	for i := len(h.all) - 1; i > 0; {
		up := (i - 1) / 2
		if !before(h.all[i], h.all[up]) {
			return
		}
		h.all[i], h.all[up] = h.all[up], h.all[i]
		i = up
	}
}

func (h *heap[T]) pop(before func(a, b T) bool) T {
	x, last := h.all[0], len(h.all)-1
	h.all[0] = h.all[last]
	clear(h.all[last:]) // so that nothing is kept alive
	h.all = h.all[:last]
	h.down(0, before)
	return x
}

// order makes a heap of elements in any order, as after a deletion.
func (h *heap[T]) order(before func(a, b T) bool) {
	for i := len(h.all)/2 - 1; i >= 0; i-- {
		h.down(i, before)
	}
}

func (h *heap[T]) down(i int, before func(a, b T) bool) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(h.all) && before(h.all[child], h.all[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.all[i], h.all[least] = h.all[least], h.all[i]
		i = least
	}
}
