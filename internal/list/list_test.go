package list_test

import (
	"slices"
	"testing"

	"github.com/throttle-go/throttle/internal/list"
)

type element struct {
	place list.Node[element]
	id    int
}

func ids(l *list.List[element]) (all []int) {
	for e := range l.All() {
		all = append(all, e.id)
	}
	return all
}

func check(t *testing.T, l *list.List[element], what string, want ...int) {
	t.Helper()
	if got := ids(l); !slices.Equal(got, want) || l.Len() != len(want) {
		t.Fatalf("after %s: %v, Len %d, want %v", what, got, l.Len(), want)
	}
	if len(want) == 0 {
		if l.Front() != nil || l.Back() != nil {
			t.Fatalf("after %s: Front %v, Back %v, want nil", what, l.Front(), l.Back())
		}
		return
	}
	if l.Front().id != want[0] || l.Back().id != want[len(want)-1] {
		t.Fatalf("after %s: Front %d, Back %d, want those of %v", what, l.Front().id, l.Back().id, want)
	}
}

func TestList(t *testing.T) {
	var l list.List[element]
	var e [5]element
	check(t, &l, "nothing")
	l.Remove(&e[0].place)
	check(t, &l, "removing what is in no list")
	for i := range e {
		e[i].id = i
		l.Push(&e[i].place, &e[i])
	}
	check(t, &l, "five pushes", 0, 1, 2, 3, 4)
	l.Remove(&e[2].place)
	check(t, &l, "removing from the middle", 0, 1, 3, 4)
	l.Remove(&e[2].place)
	check(t, &l, "removing it again", 0, 1, 3, 4)
	l.Remove(&e[0].place)
	l.Remove(&e[4].place)
	check(t, &l, "removing both ends", 1, 3)
	l.Push(&e[0].place, &e[0])
	check(t, &l, "pushing one again", 1, 3, 0)
	for x := range l.All() {
		if x.id != 3 {
			l.Remove(&x.place)
		}
	}
	check(t, &l, "removing in All", 3)
	for range l.All() {
		break
	}
	l.Insert(&e[1].place, &e[1], &e[3].place)
	check(t, &l, "putting one before the first", 1, 3)
	l.Insert(&e[2].place, &e[2], &e[3].place)
	check(t, &l, "putting one before the last", 1, 2, 3)
	l.Remove(&e[2].place)
	l.Remove(&e[1].place)
	l.Remove(&e[3].place)
	check(t, &l, "removing the last one")
}

// The position of an element costs no allocation.
func TestListAllocates(t *testing.T) {
	var l list.List[element]
	e := new(element)
	if n := testing.AllocsPerRun(100, func() {
		l.Push(&e.place, e)
		for x := range l.All() {
			l.Remove(&x.place)
		}
	}); n != 0 {
		t.Errorf("push, iterate and remove allocate %v times, want 0", n)
	}
}
