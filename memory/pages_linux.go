package memory

import "syscall"

// advise asks for large pages in place of b, which is zero and not yet in use.
// The heap may have had small pages there. They are given back first: what comes
// in place of them, when it is touched, is zero too. Where the kernel has no
// large pages nothing is lost.
func advise(b []byte) {
	if syscall.Madvise(b, syscall.MADV_HUGEPAGE) == nil {
		_ = syscall.Madvise(b, syscall.MADV_DONTNEED)
	}
}
