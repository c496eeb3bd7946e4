package pace

// heap is a binary min-heap of tickets that know their index in it, so that
// any of them can be removed. A resting ticket is ordered by the end of its
// rest, any other by its arrival.
type heap struct{ t []*Ticket }

func (h *heap) len() int     { return len(h.t) }
func (h *heap) top() *Ticket { return h.t[0] }

func (h *heap) push(t *Ticket) {
	t.index = len(h.t)
	h.t = append(h.t, t)
	h.up(t.index)
}

func (h *heap) remove(t *Ticket) {
	i, last := t.index, len(h.t)-1
	h.swap(i, last)
	h.t[last] = nil
	h.t = h.t[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func before(a, b *Ticket) bool {
	if a.at == resting {
		if c := a.rested.Compare(b.rested); c != 0 {
			return c < 0
		}
	}
	return a.arrival < b.arrival
}

func (h *heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !before(h.t[i], h.t[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.t) {
			return
		}
		if right := child + 1; right < len(h.t) && before(h.t[right], h.t[child]) {
			child = right
		}
		if !before(h.t[child], h.t[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *heap) swap(i, j int) {
	h.t[i], h.t[j] = h.t[j], h.t[i]
	h.t[i].index, h.t[j].index = i, j
}
