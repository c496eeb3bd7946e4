// Package list is a doubly linked list of elements that contain their own node.
// Removing an element takes constant time and allocates nothing. It keeps
// queues and least-recently-used orders, as in store, admit and throttle.
//
//	type entry struct {
//		place list.Node[entry]
//		...
//	}
//	var oldest list.List[entry]
//	oldest.Push(&e.place, e)
//	oldest.Remove(&e.place)
//
// A list is not safe for concurrent use.
package list

import "iter"

// List is a list of *T. The zero value is empty.
type List[T any] struct {
	first, last *Node[T]
	n           int
}

// Node is the place of one element in a list, usually a field of the element.
// The zero value is in no list.
type Node[T any] struct {
	of         *T
	prev, next *Node[T]
}

// Push appends e, whose node is n. n must not be in a list.
func (l *List[T]) Push(n *Node[T], e *T) {
	*n = Node[T]{of: e, prev: l.last}
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.n++
}

// Insert puts e, whose node is n, before the element whose node is next. n must not
// be in a list, and next must be in this one.
func (l *List[T]) Insert(n *Node[T], e *T, next *Node[T]) {
	*n = Node[T]{of: e, prev: next.prev, next: next}
	if next.prev == nil {
		l.first = n
	} else {
		next.prev.next = n
	}
	next.prev = n
	l.n++
}

// Remove removes the element whose node is n. It does nothing if n is in no
// list. n must not be in another list.
func (l *List[T]) Remove(n *Node[T]) {
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
	*n = Node[T]{}
	l.n--
}

// Len returns the number of elements.
func (l *List[T]) Len() int { return l.n }

// Front returns the first element, nil if there is none.
func (l *List[T]) Front() *T {
	if l.first == nil {
		return nil
	}
	return l.first.of
}

// Back returns the last element, nil if there is none.
func (l *List[T]) Back() *T {
	if l.last == nil {
		return nil
	}
	return l.last.of
}

// All returns an iterator over the elements, first to last. The body may remove
// the element it was given, and no other.
func (l *List[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := l.first; n != nil; {
			next := n.next
			if !yield(n.of) {
				return
			}
			n = next
		}
	}
}
