// Package config reads the settings of a launcher and yields a small, checked
// configuration per Go package.
//
// The source is node.json, which `filch up` and `filch join` write. The settings that
// people choose come from flags, which node.json holds, from FILCH_* variables of the
// launcher's environment, and from files of the system, the user and the instance;
// [Show] reports the source of each setting. This package finds out the values left
// open: the cores that this process may use, the memory of the machine or cgroup, the
// GPUs. No other package imports viper, and no client links this package: paths are in
// config/place.
package config
