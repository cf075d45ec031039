// Package filchd has the launcher inside this client. The package writes filchd,
// and a copy of the client, to the node-local folder, each under the hash of its
// content, and runs filchd for code that the client does not link, such as the
// reader of YAML.
package filchd
