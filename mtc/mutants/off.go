//go:build !mutants

package mutants

// The planted faults, all off; see on.go.
const (
	BlindExit     = false
	StealPops     = false
	NoMove        = false
	BlindThaw     = false
	NoLose        = false
	Forever       = false
	NoFront       = false
	Hasty         = false
	OldLevels     = false
	DrainKeeps    = false
	GoneLoses     = false
	ToldOnce      = false
	HeirOnce      = false
	HeirEnds      = false
	NoAfter       = false
	MuteOrders    = false
	OneRoom       = false
	TakesAll      = false
	NoRest        = false
	GangEarly     = false
	RecallTries   = false
	FillOnce      = false
	BlindFill     = false
	CancelLate    = false
	SparesRest    = false
	BadCopyWins   = false
	LoserRuns     = false
	FreeSuccessor = false
	SuccessorLost = false
	CopyCounts    = false
	TakerKeeps    = false
	OldPlaces     = false
	StealsOn      = false
)
