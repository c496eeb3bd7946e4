package memory

import (
	"runtime"
	"testing"
	"unsafe"
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
			if n < minLargePages*perPage {
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
	oneGoroutine(t)
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
