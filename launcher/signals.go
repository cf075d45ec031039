package launcher

import "fmt"

// Signals by number: the brain knows no operating system.
const (
	SigIll  = 4
	SigBus  = 7
	SigFPE  = 8
	SigKill = 9
	SigSegv = 11
	SigTerm = 15
)

var signalNames = map[int32]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	24: "SIGXCPU", 25: "SIGXFSZ",
}

// SignalName returns the name of a signal.
func SignalName(sig int32) string {
	if s, ok := signalNames[sig]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", sig)
}
