package throttle

import "github.com/throttle-go/throttle/internal/list"

// names holds values by name: all that are in use, and the latest of those that
// were. The zero value is empty. Its owner locks.
type names[T any] struct {
	byName map[string]*named[T]
	unused list.List[named[T]] // longest unused first
}

// named is a value while it is in use or remembered.
type named[T any] struct {
	of    T
	name  string
	users int
	place list.Node[named[T]] // in unused while users is zero
}

// defaultMaxNames is how many names are remembered by default.
const defaultMaxNames = 1000

// use finds or makes the value of that name, which stays until leave is called
// as often.
func (n *names[T]) use(name string, most int) (x *named[T], isNew bool) {
	x = n.byName[name]
	if isNew = x == nil; isNew {
		if n.byName == nil {
			n.byName = make(map[string]*named[T])
		}
		x = &named[T]{name: name}
		n.byName[name] = x
	}
	x.users++
	n.unused.Remove(&x.place)
	n.forget(most)
	return x, isNew
}

func (n *names[T]) leave(x *named[T], most int) {
	if x.users--; x.users == 0 {
		n.unused.Push(&x.place, x)
	}
	n.forget(most)
}

// forget drops unused values while there are too many.
func (n *names[T]) forget(most int) {
	if most <= 0 {
		most = defaultMaxNames
	}
	for len(n.byName) > most && n.unused.Len() > 0 {
		x := n.unused.Front()
		n.unused.Remove(&x.place)
		delete(n.byName, x.name)
	}
}
