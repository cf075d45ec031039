// Package keeper is the keeper: the process that holds the ranks of an attempt of a job
// on a node.
//
// A launcher keeps one keeper ready ([proc.Spawn]): a process of its own session, a
// subreaper, connected by a socketpair on fd 3. The keeper receives [launcher.Start] and
// answers with Ready, RanksStarted, RanksWired, RanksEnded and KeeperDone. Meanwhile the keeper
// carries the ranks' output and input and answers their PMI requests.
//
// The whole keeper runs on a single locked thread around a single epoll. That thread
// forks the ranks, too, since their parent-death signal fires when the forking thread
// ends, not the process (golang/go#27505). Nothing on that thread blocks but the fork
// itself; files are written by a second goroutine with a bounded queue.
//
// The promise: no process of the attempt outlives the keeper. Ranks die with the keeper
// by their parent-death signal. Processes left by a rank become children of the keeper,
// the subreaper, or are found by their mark (FILCH_IDENT) or their cgroup. When the
// launcher is gone and not back within [AdoptWait], the keeper kills all processes and
// exits. The keeper counts and reports the processes that resist SIGKILL for
// [proc.UnkillableAfter].
package keeper
