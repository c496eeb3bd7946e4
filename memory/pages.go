package memory

import "unsafe"

const (
	// largePage is what Linux has on most processors beside pages of 4 KiB.
	largePage = 2 << 20
	// minLargePages is from how many large pages on a table has them. Of small
	// ones a processor remembers where some thousand are.
	minLargePages = 2
)

// newLines makes lines, in large pages where the system lets it, as to find out
// where a small page is costs another read or two from far away. It advises the
// system about memory of the Go heap that has not been used yet, and only about
// pages that are the table's alone: so it takes no more memory, and the collector
// frees it as any other. What the heap puts there afterwards may be in large pages
// too.
func newLines(n uint64) []cacheLine {
	lines := make([]cacheLine, n)
	if b := wholePages(lines); b != nil {
		advise(b)
	}
	return lines
}

// wholePages returns the part of lines that is made of whole large pages; nil if
// there is little of it.
func wholePages(lines []cacheLine) []byte {
	size := uintptr(len(lines)) * lineSize
	if size < minLargePages*largePage {
		return nil
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(lines))), size)
	from := -uintptr(unsafe.Pointer(unsafe.SliceData(lines))) % largePage
	return b[from : from+(size-from)/largePage*largePage]
}
