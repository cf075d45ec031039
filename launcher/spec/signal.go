package spec

import (
	"strconv"
	"strings"
	"time"
)

// signalMax is the highest signal number of Linux.
const signalMax = 64

// signalNames are Linux's names, by number, as on amd64 and arm64.
var signalNames = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL",
	10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD",
	18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ",
	26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO", 30: "PWR", 31: "SYS",
}

// Signal reads a signal: a number, or a name with or without SIG, in any case.
func Signal(s string) (int32, error) {
	if digits(s) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > signalMax {
			return 0, invalid("%s is not a signal number from 1 to %d", clip(s), signalMax)
		}
		return int32(n), nil
	}
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	for n, known := range signalNames {
		if known == name && name != "" {
			return int32(n), nil
		}
	}
	switch name {
	case "CLD":
		return 17, nil
	case "POLL":
		return 29, nil
	case "IOT":
		return 6, nil
	}
	return 0, invalid("%s is not a signal", clip(s))
}

// SignalName writes a signal as SIGNAME, or as a number without a name.
func SignalName(n int32) string {
	if n > 0 && int(n) < len(signalNames) {
		return "SIG" + signalNames[n]
	}
	return strconv.Itoa(int(n))
}

// warnTimeDefault is how long before the time limit --signal sends the signal, if the
// option has no time.
const warnTimeDefault = 60 * time.Second

// warnTimeMax is srun's limit.
const warnTimeMax = 65535 * time.Second

// Warning reads the value of --signal, SIG[@TIME], a bare number in seconds; srun's prefixes R: and
// B: concern reservations and batch shells, which do not exist here.
func Warning(s string) (sig int32, before time.Duration, err error) {
	name, text, timed := strings.Cut(s, "@")
	if shell, signal, has := strings.Cut(name, ":"); has {
		if strings.Trim(shell, "RBrb") != "" {
			return 0, 0, invalid("%s is not SIGNAL[@TIME]", clip(s))
		}
		name = signal
	}
	if sig, err = Signal(name); err != nil {
		return 0, 0, err
	}
	before = warnTimeDefault
	if timed {
		before, err = Seconds(text)
		if err != nil || before > warnTimeMax || before%time.Second != 0 {
			return 0, 0, invalid("%s is not a time of whole seconds, from 0 to 65535 seconds", clip(text)).
				WithHint("a bare number is seconds; with units: 90s, 10m, 1h30m")
		}
	}
	return sig, before, nil
}
