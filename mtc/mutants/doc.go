// Package mutants has the planted faults of package mtc, which tests switch on one by one and
// must catch. Without the build tag mutants all are constants that are false.
package mutants
