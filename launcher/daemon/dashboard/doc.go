// Package dashboard serves the dashboard of one launcher: a page for a browser, over HTTP on
// loopback. The page reads only: no request changes a job or a node.
//
// The URL has a token of 130 random bits as its first part. A request without the token, or
// with the name of another host (a name that an attacker's DNS turned to loopback), gets 404
// and nothing else. The page is embedded and needs no other file.
//
// All browsers share one look at the nodes a second while something happens, else one after each
// change. No look is taken while no browser is there ([feed]). A browser gets the last look, never a queue of looks, and is cut off
// when it reads nothing for [writeWait]. The other data are the answers of commands of filch,
// each a process of its own with a deadline and a limit of bytes ([Config.Command]): so the
// launcher never holds the bars of a job in memory.
package dashboard
