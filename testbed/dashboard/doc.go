// Package dashboard tests the page of filch dashboard, and the page of filch report, with a
// browser, and the dashboard with many clients. The tests need root as a whole: the browser of
// Debian runs without a sandbox of its own then.
package dashboard
