//go:build !purego

#include "textflag.h"

// func prefetch(x, y *cacheLine)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), AX
	MOVQ y+8(FP), BX
	PREFETCHT0 (AX)
	PREFETCHT0 (BX)
	RET
