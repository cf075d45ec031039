package main

// sound are the promises that attacks and trials asked for: what strangers and
// other users cannot do, and what is neither lost nor counted wrongly.
func sound() []promise {
	return []promise{
		{
			line: "13a", what: "strangers: 80 with 64 streams each, 50 connections a second, 64 launchers that join during 500 a second",
			bar: "< 10 MB and no TLS; < 2 % of a core; < 20 s",
			tests: []suite{
				{dir: "./dht/overlay", run: "^TestStrangersCost|^TestGate|^TestUnproven|^TestHostRefuses"},
				{dir: "./testbed/scale", run: "^TestLaunchersJoinAmong"},
				{dir: "./dht/kad", run: "AdmittedOnly"},
			},
		},
		{
			line: "13b", what: "another user races --bcast; the same attacker against a shell that unpacks in /tmp",
			bar:   "200 runs, 0 won; the other: at least 1",
			tests: []suite{{dir: "./testbed/faults", run: "^TestBcast", tags: "root"}},
		},
		{
			line: "13c", what: "nodes that drain while tasks are queued on them, again and again under load",
			bar:   "their queues are empty at once, one end each",
			tests: []suite{{dir: "./testbed/faults", run: "^TestDrain$", tags: "root"}},
		},
		{
			line: "13d", what: "a bag with --crash-limit 1, and the launcher that has most of it is killed",
			bar:   "no task that never ran is lost or counted, at most 2 starts each",
			tests: []suite{{dir: "./testbed/faults", run: "^TestUncountedStarts$", tags: "root"}},
		},
		{
			line: "13e", what: "pause of the other nodes' starts after kill -9 of a launcher, and after a host vanishes; a firewall that rejects a live node",
			bar:   "< 1 s, < 6 s; no `--once` task lost, no run ended",
			tests: []suite{{dir: "./testbed/faults", run: "^TestPauses$|^TestRejected$", tags: "root"}},
		},
		{
			line: "13f", what: "batch jobs with a step each, spread over four hosts beside other runs", bar: "2,000 jobs, 0 fail",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestBatchJobsSpread$", tags: "root"}},
		},
		{
			line: "13g", what: "the first cause of ends of MPI programs, on virtual nodes and on separate hosts", bar: "200 runs of each ending, 0 wrong",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestFirstCauses$", tags: "root"}},
		},
		{
			line: "13h", what: "Open MPI between virtual nodes of a machine with a second network: alltoallv of 3 x 2 ranks", bar: "20 of 20",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestSecondNetwork$", tags: "root"}},
		},
		{
			line: "13i", what: "tasks that print where the disk has no room for it", bar: "all end well, and what is missing is told",
			tests: []suite{{dir: "./testbed/faults", run: "^TestTasksWithoutRoom", tags: "root"}},
		},
	}
}
