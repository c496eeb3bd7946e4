package throttle

import "syscall"

// advise asks for large pages. Where the kernel has none nothing is lost.
func advise(b []byte) { _ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) }
