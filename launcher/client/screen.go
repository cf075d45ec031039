package client

import (
	"time"

	"github.com/filch-hpc/filch/launcher/config/place"
)

// Screen is the only argument of filchtop, as JSON: what filch top has found out.
type Screen struct {
	Dir      place.Dir     `json:"dir"`   // of a launcher that answers
	Filch    string        `json:"filch"` // the program that carries out orders
	Build    string        `json:"build"`
	Once     bool          `json:"once"`
	Interval time.Duration `json:"interval"`
}
