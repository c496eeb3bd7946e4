//go:build !purego

#include "textflag.h"

// func prefetch(x, y *cacheLine)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD x+0(FP), R0
	MOVD y+8(FP), R1
	PRFM (R0), PLDL1KEEP
	PRFM (R1), PLDL1KEEP
	RET
