package memory

import (
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"github.com/throttle-go/throttle/limit"
)

// TestWholePages: the system is advised about whole large pages only, all that
// are in the table and none that is not.
func TestWholePages(t *testing.T) {
	const perPage = largePage / lineSize
	all := make([]cacheLine, 6*perPage)
	base := uintptr(unsafe.Pointer(&all[0]))
	for _, n := range []int{0, 1, perPage, 2*perPage - 1, 2 * perPage, 2*perPage + 1, 3*perPage + 7, 5 * perPage} {
		for _, from := range []int{0, 1, perPage / 2, perPage - 1} {
			b := wholePages(all[from : from+n])
			if n < fewestPages*perPage {
				if b != nil {
					t.Errorf("%d lines: %d bytes, want none", n, len(b))
				}
				continue
			}
			start := base + uintptr(from)*lineSize
			first := (start + largePage - 1) / largePage * largePage
			last := (start + uintptr(n)*lineSize) / largePage * largePage
			got := uintptr(unsafe.Pointer(&b[0]))
			if got != first || got+uintptr(len(b)) != last {
				t.Errorf("%d lines at %x: [%x, %x), want [%x, %x)", n, start, got, got+uintptr(len(b)), first, last)
			}
		}
	}
}

// TestNewLinesAreEmpty: also where the heap gives out again what was in use.
func TestNewLinesAreEmpty(t *testing.T) {
	for range 4 {
		lines := newLines(5*largePage/lineSize + 1)
		for i := range lines {
			for j := range lines[i] {
				if w := lines[i][j].Swap(^uint64(0)); w != 0 {
					t.Fatalf("word %d of line %d of new ones is %x, want 0", j, i, w)
				}
			}
		}
		lines = nil
		runtime.GC()
	}
}

// TestPreparedIs: limits that differ in any field are not taken for each other.
func TestPreparedIs(t *testing.T) {
	l := limit.Limit{Count: 3, Period: 7}
	p := prepare(l)
	if !p.is(&l) {
		t.Fatalf("prepare(%+v).is(it) = false", l)
	}
	for i := range reflect.TypeFor[limit.Limit]().NumField() {
		other := l
		switch f := reflect.ValueOf(&other).Elem().Field(i); {
		case f.CanInt():
			f.SetInt(f.Int() + 1)
		case f.CanUint():
			f.SetUint(f.Uint() + 1)
		default:
			f.Set(reflect.New(f.Type().Elem()))
		}
		if p.is(&other) {
			t.Errorf("prepare(%+v).is(%+v) = true", l, other)
		}
	}
}

// TestSearch: a key is found in each slot of its two lines, locked or not, and
// only under its own tag.
func TestSearch(t *testing.T) {
	tab := new(Store).table()
	const tag, h = uint64(5<<idShift | 77), 77
	a, b := tab.home(h)
	for n, line := range []uint64{a, b} {
		for i := 0; i < 2*slots; i += 2 {
			l, want := &tab.lines[line], tag|uint64(n)*second
			for _, c := range []struct {
				in   uint64
				slot int
			}{
				{want, i}, {want | lockBit, i}, {want ^ second, -1}, {want + 1, -1}, {want + 1<<idShift, -1}, {moved, -1},
			} {
				if i > 0 && c.in&lockBit != 0 {
					continue // only the first slot has a lock
				}
				l[i].Store(c.in)
				found, at := tab.search(h, tag)
				if at != c.slot || at >= 0 && found != l {
					t.Errorf("line %d, slot %d has %x: search(%d, %x) = slot %d, want %d", line, i/2, c.in, h, tag, at, c.slot)
				}
				l[i].Store(0)
			}
		}
	}
}
