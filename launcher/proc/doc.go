// Package proc is the keeper: the process that holds the ranks of one attempt
// of a job on one node.
//
// A launcher keeps one keeper ready ([Spawn]): a process of its own session, a
// subreaper, connected by a socketpair on fd 3. It is told to [launcher.Start]
// and answers with Ready, RanksStarted, RanksEnded and KeeperDone; between
// them it carries the ranks' output and input and answers their PMI requests.
//
// All of it runs on one locked thread around one epoll: it forks the ranks,
// too, since their parent-death signal fires when the forking thread ends, not
// the process (golang/go#27505). Nothing on that thread blocks but the fork
// itself; files are written by a second goroutine with a bounded queue.
//
// What it promises: no process of the attempt outlives it. Ranks die with it
// by their parent-death signal; what they left behind comes to it, the
// subreaper, or is found by its mark (FILCH_IDENT) or its cgroup; when its
// launcher is gone and not back within [AdoptWait], it kills all and leaves.
// What even it cannot kill within [UnkillableAfter] is counted and said.
package proc
