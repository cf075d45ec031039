#include "textflag.h"

// func prlimit(resource uintptr, old *[2]uint64) uintptr
TEXT ·prlimit(SB), NOSPLIT, $0-24
	MOVQ	$0, DI // this process
	MOVQ	resource+0(FP), SI
	MOVQ	$0, DX // no new limit
	MOVQ	old+8(FP), R10
	MOVQ	$302, AX // prlimit64
	SYSCALL
	MOVQ	AX, ret+16(FP)
	RET
