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
	"restore":       {"launcher/restore.go"},
	"record writer": {"launcher/record.go", "launcher/meta.go", "launcher/outbox.go", "launcher/book.go", "launcher/entry.go"},
	"quota":         {"launcher/quota.go", "launcher/records.go"},
	"task failover": {"mtc/inherit.go", "mtc/sweep.go", "mtc/remains.go", "launcher/work.go", "launcher/worklife.go"},
	"takeover":      {"launcher/takeover.go", "launcher/fence.go"},
	"ids":           {"launcher/block.go"},
	"disown":        {"launcher/disown.go"},
	"steps":         {"launcher/tasksteps.go", "launcher/steps.go"},
	"sync gate":     {"dht/syncgate.go"},
	"rejoin":        {"dht/rejoin.go"},
	"launch":        {"launcher/launch.go", "launcher/part.go", "launcher/gather.go"},
	"ledger":        {"slots/ledger.go", "slots/lend.go", "slots/run.go", "slots/room.go", "slots/task.go"},
	"gather":        {"stealer/gather.go", "stealer/half.go"},
	"replication":   {"dht/primary.go", "dht/replica.go", "dht/learner.go", "dht/recover.go", "dht/evolve.go", "dht/apply.go", "dht/home.go", "dht/seat.go", "dht/steward.go", "dht/diskside.go"},
	"explain":       {"launcher/explain.go", "launcher/taskexplain.go"},
	"tasks":         {"mtc/lead.go", "mtc/block.go", "mtc/run.go", "mtc/commit.go", "mtc/drain.go", "mtc/caprecord.go", "mtc/ends.go", "mtc/members.go", "mtc/victim.go", "mtc/thief.go", "mtc/zone.go"},
}

// Faults are all that a simulator catches. The suites of single packages (mtc, dht,
// slots, launcher) have more, each with the scene that must see it.
var Faults = []Fault{
	{"restore-parts", "launcher", "restore", Instance, 200, "crashes"},
	{"restore-open", "launcher", "restore", Instance, 60, "owners"},
	{"restore-gate", "launcher", "restore", Instance, 100, "owners"},
	{"early-book", "launcher", "record writer", Instance, 30, "owners"},
	{"entry-parts", "launcher", "record writer", Instance, 100, "heirs"},
	{"first-answer", "launcher", "record writer", Instance, 10, ""},
	{"stale-records", "launcher", "record writer", Instance, 20, ""},
	{"drop-live", "launcher", "quota", Instance, 10, "drops"},
	{"drop-bare", "launcher", "quota", Instance, 20, "drops"},
	{"made-again", "launcher", "quota", Instance, 300, "drops"},
	{"heir-once", "mtc", "task failover", Instance, 100, "stewards"},
	{"heir-ends", "mtc", "task failover", Instance, 20, "stewards"},
	{"tasks-stay", "launcher", "task failover", Instance, 150, "rejoins"},
	{"no-heir", "launcher", "takeover", Instance, 100, ""},
	{"heir-anew", "launcher", "takeover", Instance, 60, "owners"},
	{"same-block", "launcher", "ids", Instance, 10, ""},
	{"deaf-owner", "launcher", "disown", Instance, 40, "owners"},
	{"steps-outlive", "launcher", "steps", Instance, 60, "steps"},
	{"done-unsynced", "dht", "sync gate", Instance, 20, "syncs"},
	{"rejoin-silent", "dht", "rejoin", Instance, 40, "syncs"},
	{"mute-jobs", "launcher", "explain", Instance, 10, ""},
	{"mute-tasks", "launcher", "explain", Instance, 60, "stewards"},
	{"cap-free", "mtc", "tasks", Instance, 10, "caps"},
	{"no-after", "mtc", "tasks", Instance, 100, ""},
	{"early-go", "launcher", "launch", Instance, 60, ""},
	{"no-lease", "launcher", "launch", Instance, 400, ""},
	{"stale-launch", "launcher", "launch", Instance, 200, ""},
	{"oversell", "slots", "ledger", Instance, 20, ""},
	{"leak", "slots", "ledger", Instance, 20, ""},
	{"forgotten-wound", "slots", "ledger", Instance, 60, ""},
	{"release-by-slot", "slots", "ledger", Instance, 60, ""},
	{"blind-adopt", "slots", "ledger", Instance, 60, ""},
	{"young-first", "slots", "ledger", Instance, 0, ""},
	{"stale-grant", "stealer", "gather", Instance, 400, ""},
	{"lend-all", "stealer", "gather", Instance, 0, ""},

	{"naive-home", "dht", "replication", Store, 100, ""},
	{"parent-counter", "dht", "replication", Store, 100, ""},
	{"majority-commit", "dht", "replication", Store, 200, ""},
	{"no-fence", "dht", "replication", Store, 1500, ""},
	{"grow-without-acks", "dht", "replication", Store, 800, ""},
	{"seats-forget", "dht", "replication", Store, 1500, ""},
	{"no-write-back", "dht", "replication", Store, 1500, ""},
	{"drop-learner-early", "dht", "replication", Store, 2500, ""},
	{"local-reads", "dht", "replication", Store, 1500, ""},
	{"seat-unsynced", "dht", "sync gate", Store, 200, "syncs"},
	{"done-unsynced", "dht", "sync gate", Store, 100, "syncs"},
	{"rejoin-silent", "dht", "rejoin", Store, 100, ""},
	{"rejoin-blind", "dht", "rejoin", Store, 100, ""},
	{"split-unlearns", "dht", "replication", Store, 100, "grows"},
	{"split-early", "dht", "replication", Store, 100, "grows"},

	{"count-maybe", "mtc", "tasks", Tasks, 60, ""},
	{"drain-keeps", "mtc", "tasks", Tasks, 60, ""},
}
