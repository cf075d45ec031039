package planted

// The simulators and suites that catch planted faults.
const (
	Instance = "testbed/sim/instance"
	Store    = "testbed/sim/store"
	Tasks    = "testbed/sim/tasks"
)

// Parts are the parts of a node, with the files that each is in. Every one has a
// planted fault at least.
var Parts = map[string][]string{
	"restore":        {"launcher/node/origin/restore.go"},
	"record writer":  {"launcher/record.go", "launcher/node/origin/jobrecord.go", "launcher/node/records/records.go", "launcher/outbox.go", "launcher/node/records/writer.go", "launcher/entry.go"},
	"quota":          {"launcher/node/records/quota.go", "launcher/node/records/store.go"},
	"task failover":  {"mtc/inherit.go", "mtc/orphans.go", "mtc/restore.go", "launcher/node/tasks/tasks.go", "launcher/node/tasks/failover.go"},
	"gangs as tasks": {"launcher/node/origin/gangs.go", "launcher/node/tasks/gangs.go", "launcher/node/origin/attempts.go", "mtc/gangs.go"},
	"takeover":       {"launcher/node/origin/inherit.go", "launcher/node/ranks/heirs.go", "launcher/node/records/orphans.go", "launcher/node/origin/lostranks.go"},
	"ids":            {"launcher/node/records/ids.go"},
	"disown":         {"launcher/node/origin/disown.go"},
	"steps":          {"launcher/node/tasks/steps.go", "launcher/node/origin/steps.go"},
	"sync gate":      {"dht/store/syncgate.go"},
	"rejoin":         {"dht/store/rejoin.go"},
	"launch":         {"launcher/node/origin/attempts.go", "launcher/node/ranks/participant.go", "launcher/node/origin/gatherqueue.go"},
	"ledger":         {"slots/ledger.go", "slots/lend.go", "slots/reports.go", "slots/run.go", "slots/room.go", "slots/share.go", "slots/task.go", "slots/waitlist.go"},
	"gather":         {"stealer/gather.go", "stealer/half.go"},
	"replication":    {"dht/store/primary.go", "dht/store/replica.go", "dht/store/reconfigure.go", "dht/store/learner.go", "dht/store/recover.go", "dht/roster/reconfig.go", "dht/store/record/apply.go", "dht/store/record/dedup.go", "dht/store/callers.go", "dht/store/acceptor.go", "dht/store/proposer.go", "dht/store/persist.go"},
	"explain":        {"launcher/node/origin/explain.go", "launcher/node/tasks/explain.go"},
	"tasks":          {"mtc/leader.go", "mtc/record/blockmerge.go", "mtc/execution.go", "mtc/commits.go", "mtc/drain.go", "mtc/record/cap.go", "mtc/ends/recorder.go", "mtc/ends/tell.go", "mtc/policy/members.go", "mtc/policy/urge.go", "mtc/victim.go", "mtc/thief.go", "mtc/record/zonemerge.go", "mtc/orders.go", "mtc/record/orders.go", "mtc/suits.go"},
}

// Faults are all that a simulator catches. The suites of single packages (mtc, dht,
// slots, launcher/node) have more, each with the scene that must see it.
var Faults = []Fault{
	{"restore-parts", "launcher/node/origin", "restore", Instance, 200, "crashes"},
	{"restore-open", "launcher/node/origin", "restore", Instance, 60, "owners"},
	{"restore-gate", "launcher/node/origin", "restore", Instance, 100, "owners"},
	{"early-book", "launcher/node/records", "record writer", Instance, 30, "owners"},
	{"entry-parts", "launcher/node/origin", "record writer", Instance, 100, "heirs"},
	{"first-answer", "launcher/node/records", "record writer", Instance, 10, ""},
	{"stale-records", "launcher", "record writer", Instance, 20, ""},
	{"drop-live", "launcher/node/records", "quota", Instance, 10, "drops"},
	{"drop-bare", "launcher/node/records", "quota", Instance, 20, "drops"},
	{"made-again", "launcher/node/records", "quota", Instance, 300, "drops"},
	{"heir-once", "mtc", "task failover", Instance, 100, "stewards"},
	{"heir-ends", "mtc", "task failover", Instance, 20, "stewards"},
	{"tasks-stay", "launcher/node/tasks", "task failover", Instance, 150, "rejoins"},
	{"no-heir", "launcher/node/records", "takeover", Instance, 100, ""},
	{"heir-anew", "launcher/node/origin", "takeover", Instance, 60, "owners"},
	{"same-block", "launcher/node/records", "ids", Instance, 10, ""},
	{"deaf-owner", "launcher/node/origin", "disown", Instance, 40, "owners"},
	{"steps-outlive", "launcher/node/tasks", "steps", Instance, 60, "steps"},
	{"done-unsynced", "dht/store", "sync gate", Instance, 20, "syncs"},
	{"rejoin-silent", "dht/store", "rejoin", Instance, 40, "syncs"},
	{"mute-jobs", "launcher/node/origin", "explain", Instance, 10, ""},
	{"mute-tasks", "launcher/node/tasks", "explain", Instance, 60, "stewards"},
	{"cap-free", "mtc/record", "tasks", Instance, 10, "caps"},
	{"no-after", "mtc", "tasks", Instance, 100, ""},
	{"early-go", "launcher/node/origin", "launch", Instance, 60, ""},
	{"no-lease", "launcher/node/ranks", "launch", Instance, 400, ""},
	{"stale-launch", "launcher/node/origin", "launch", Instance, 200, ""},
	{"oversell", "slots", "ledger", Instance, 20, ""},
	{"leak", "slots", "ledger", Instance, 20, ""},
	{"forgotten-wound", "slots", "ledger", Instance, 60, ""},
	{"release-by-slot", "slots", "ledger", Instance, 60, ""},
	{"blind-adopt", "slots", "ledger", Instance, 60, ""},
	{"gang-untold", "launcher/node/tasks", "gangs as tasks", Instance, 10, "fills"},
	{"gang-goes-on", "launcher/node/tasks", "gangs as tasks", Instance, 60, "gangs"},
	{"gang-ends-two", "launcher/node/tasks", "gangs as tasks", Instance, 10, "gangs"},
	{"half-gang", "launcher/node/origin", "gangs as tasks", Instance, 30, "gangs"},
	{"young-first", "slots", "ledger", Instance, 0, ""},
	{"stale-grant", "stealer", "gather", Instance, 400, ""},
	{"lend-all", "stealer", "gather", Instance, 0, ""},

	{"naive-home", "dht/roster", "replication", Store, 100, ""},
	{"parent-counter", "dht/store", "replication", Store, 100, ""},
	{"majority-commit", "dht/store", "replication", Store, 200, ""},
	{"no-fence", "dht/store", "replication", Store, 1500, ""},
	{"grow-without-acks", "dht/store", "replication", Store, 800, ""},
	{"acceptors-forget", "dht/store", "replication", Store, 1500, ""},
	{"no-write-back", "dht/store", "replication", Store, 1500, ""},
	{"drop-learner-early", "dht/store", "replication", Store, 2500, ""},
	{"local-reads", "dht/store", "replication", Store, 1500, ""},
	{"acceptor-unsynced", "dht/store", "sync gate", Store, 200, "syncs"},
	{"done-unsynced", "dht/store", "sync gate", Store, 100, "syncs"},
	{"rejoin-silent", "dht/store", "rejoin", Store, 100, ""},
	{"rejoin-blind", "dht/store", "rejoin", Store, 100, ""},
	{"split-unlearns", "dht/store", "replication", Store, 100, "grows"},
	{"split-early", "dht/roster", "replication", Store, 100, "grows"},

	{"count-maybe", "mtc/record", "tasks", Tasks, 60, ""},
	{"drain-keeps", "mtc", "tasks", Tasks, 60, ""},
	{"cancel-late", "mtc", "tasks", Tasks, 100, ""},
	{"takes-all", "mtc", "tasks", Tasks, 100, ""},
	{"one-room", "mtc", "tasks", Tasks, 100, ""},
	{"homely", "mtc/policy", "tasks", Tasks, 60, ""},
}
