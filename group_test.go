package throttle_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/throttle-go/throttle"
)

func TestGroupForgetsTheLongestUnused(t *testing.T) {
	var made []string
	s := &throttle.Group{MaxMembers: 3, New: func(name string) *throttle.Throttle {
		made = append(made, name)
		return nil
	}}
	visit := func(name string) {
		s.Enter(name).Leave()
		if n := s.Len(); n > 3 {
			t.Errorf("after %s: %d names, want at most 3", name, n)
		}
	}
	for _, name := range []string{"a", "b", "c", "a", "d", "a", "c", "e"} {
		visit(name)
	}
	// d pushed out b, which was unused for longest; c was still there.
	if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(made, want) {
		t.Errorf("made %q, want %q", made, want)
	}
	// Those in use stay.
	var used []*throttle.Member
	for i := range 5 {
		used = append(used, s.Enter(fmt.Sprint("used", i)))
	}
	if n := s.Len(); n != 5 {
		t.Errorf("%d names with 5 in use, want 5", n)
	}
	for _, u := range used {
		u.Leave()
	}
	if n := s.Len(); n != 3 {
		t.Errorf("%d names after use, want 3", n)
	}
}

func TestGroupRemembersAThousand(t *testing.T) {
	var s throttle.Group
	for i := range 2000 {
		s.Enter(fmt.Sprint(i)).Leave()
	}
	if n := s.Len(); n != 1000 {
		t.Errorf("%d names, want 1000", n)
	}
}

func TestGroupMakesAThrottleOnce(t *testing.T) {
	made := 0
	s := &throttle.Group{New: func(string) *throttle.Throttle { made++; return nil }}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			x := s.Enter("one")
			if x.Throttle() == nil {
				t.Error("no Throttle")
			}
			x.Leave()
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("made %d times, want once", made)
	}
}

func TestGroupNewPanics(t *testing.T) {
	s := &throttle.Group{MaxMembers: 1, New: func(name string) *throttle.Throttle {
		if name == "bad" {
			panic("no")
		}
		return nil
	}}
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("New panics, and Enter does not")
				}
			}()
			s.Enter("bad")
		}()
	}
	s.Enter("good").Leave()
	left := maps.Collect(s.All())
	if n := s.Len(); n != 1 || left["good"] == nil {
		t.Errorf("%d names, of which %v have a Throttle; want the good one alone", n, left)
	}
}

// A New that panics is called again for the next Enter, as what it needs may be
// there by then.
func TestGroupNewPanicsOnce(t *testing.T) {
	calls, th := 0, new(throttle.Throttle)
	g := &throttle.Group{New: func(string) *throttle.Throttle {
		if calls++; calls == 1 {
			panic("not configured yet")
		}
		return th
	}}
	func() {
		defer func() { recover() }()
		g.Enter("x")
	}()
	for range g.All() {
		t.Error("All lists a name without a Throttle")
	}
	for range 2 {
		m := g.Enter("x")
		if m.Throttle() != th || calls != 2 {
			t.Errorf("another Throttle after %d calls of New, want that of the second", calls)
		}
		m.Leave()
	}
}

func TestGroupLeaveTwice(t *testing.T) {
	g := throttle.Group{MaxMembers: 1}
	m := g.Enter("a")
	m.Leave()
	func() {
		defer func() {
			if p, want := recover(), "throttle: Member.Leave is called more often than Group.Enter"; p != want {
				t.Errorf("a second Leave panics with %v, want %s", p, want)
			}
		}()
		m.Leave()
	}()
	g.Enter("b").Leave() // and a is forgotten, as it is not in use
	if n := g.Len(); n != 1 {
		t.Errorf("%d names, want 1", n)
	}
}
