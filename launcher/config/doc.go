// Package config reads what a launcher is to be and yields a small, checked
// configuration per room.
//
// The source is node.json, which `filch up` and `filch join` write; a few
// values can be overridden by FILCH_* variables of the launcher's environment.
// What is left open is found out here: the cores that this process may use,
// the memory of the machine or cgroup, the GPUs. This is the only package that
// knows viper, and no client links it: paths are in config/place.
package config
