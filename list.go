package throttle

// list is a doubly linked list of things that carry their node themselves, so
// that one leaves from the middle at once, and nothing is allocated. The zero
// value is empty.
type list[T any] struct {
	first, last *node[T]
	n           int
}

// node is a place in a list. The zero value is in none.
type node[T any] struct {
	of         *T
	prev, next *node[T]
}

// push puts e, the node of which is n, at the end. n must be in no list.
func (l *list[T]) push(n *node[T], e *T) {
	*n = node[T]{of: e, prev: l.last}
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.n++
}

// remove takes n out, if it is in.
func (l *list[T]) remove(n *node[T]) {
	if n.of == nil {
		return
	}
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	*n = node[T]{}
	l.n--
}

// front is the first element, nil if there is none.
func (l *list[T]) front() *T {
	if l.first == nil {
		return nil
	}
	return l.first.of
}
