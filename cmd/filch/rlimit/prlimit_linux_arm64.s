#include "textflag.h"

// func prlimit(resource uintptr, old *[2]uint64) uintptr
TEXT ·prlimit(SB), NOSPLIT, $0-24
	MOVD	$0, R0 // this process
	MOVD	resource+0(FP), R1
	MOVD	$0, R2 // no new limit
	MOVD	old+8(FP), R3
	MOVD	$261, R8 // prlimit64
	SVC
	MOVD	R0, ret+16(FP)
	RET
