// Package python holds the tests of the Python package filch: the wheel, the code of
// docs/python.md, CPython's tests of executors, and dead launchers under calls. The tests in Python
// are in scripts/python/tests.
package python
