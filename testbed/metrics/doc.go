// Package metrics holds the rules and the board of scripts/metrics against a real Prometheus
// that reads four launchers.
package metrics
