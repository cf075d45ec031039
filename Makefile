# Every target is what CI runs, and CI runs nothing else. `make help` lists them.

BIN      ?= bin
GO       ?= go
TOOL     := $(GO) tool -modfile=tools.mod
COMMIT   ?= $(shell git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.commit=$(COMMIT) -X github.com/filch-hpc/filch/cmd/filch/cli.Commit=$(COMMIT)
BUILD    := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'
PAYLOAD  := cmd/filch/filchd/payload/filchd
SCREEN   := cmd/filch/filchd/payload/filchtop.gz
HELPER   := launcher/pmix/payload/pmixd

# Packages with goroutines, for the race detector. libp2p's handshakes take too long there.
RACED    := ./dht/disk ./dht/overlay/mem ./launcher/client ./launcher/daemon/... ./launcher/mirror ./launcher/output ./launcher/proc/keeper \
	./cmd/filch/runclient ./cmd/filch/logs ./cmd/filch/progress

SEEDS    ?= 3000
SIZE     ?= small
OUT      ?= papers
N        ?= 1024
T        ?= 30s
COUNT    ?= 1
# CI sets both: AGAIN=1 runs what failed once more, TOLD is a folder for the reports.
AGAIN    ?=
TOLD     ?=
SUM       = $(TOOL) gotestsum --format pkgname-and-test-fails --hide-summary=skipped \
	$(if $(TOLD),--jsonfile '$(TOLD)/$(1).json') \
	$(if $(AGAIN),--rerun-fails=$(AGAIN) --rerun-fails-max-failures=4 $(if $(TOLD),--rerun-fails-report='$(TOLD)/$(1).again'))

# make install puts everything below DESTDIR and PREFIX.
PREFIX   ?= /usr/local
DESTDIR  ?=
# The C compiler of the helper, where GOARCH is not this machine's.
CROSS_CC ?=

.PHONY: help build install uninstall dist check test test-all rooted simulations testbed sim sim-million papers bench proof golden fuzz demo man clean
.DELETE_ON_ERROR:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

build: ## filch and, inside it, filchd: BIN=DIR leaves DIR/filch ready to run
	@mkdir -p $(BIN) $(dir $(PAYLOAD))
	@[ -n '$(CROSS_CC)' -o "$$($(GO) env GOARCH)" = "$$($(GO) env GOHOSTARCH)" ] && $(if $(CROSS_CC),CC='$(CROSS_CC)') launcher/pmix/pmixd/build $(HELPER) || { rm -f $(HELPER); echo 'without pmixd: Open MPI programs will need a compiler and the headers of PMIx on each node'; }
	$(BUILD) -o $(PAYLOAD).new ./cmd/filchd && mv $(PAYLOAD).new $(PAYLOAD)
	$(BUILD) -o $(SCREEN).new ./cmd/filchtop && gzip -9n <$(SCREEN).new >$(SCREEN).gz && rm $(SCREEN).new && mv $(SCREEN).gz $(SCREEN)
	$(BUILD) -o $(BIN)/filch ./cmd/filch

# Root often has no Go in its PATH: then what `make build` left is installed.
install: ## filch, manual, completions and batch scripts, below PREFIX=/usr/local; DESTDIR counts
	@if command -v $(GO) >/dev/null; then $(MAKE) --no-print-directory -s build; fi
	@[ -x '$(BIN)/filch' ] || { echo 'cannot install: $(BIN)/filch is missing, and so is Go: run make build first, as a user with Go' >&2; exit 1; }
	scripts/stage '$(DESTDIR)$(PREFIX)' '$(BIN)/filch'
	@'$(BIN)/filch' version

uninstall: ## remove what make install has put below PREFIX
	scripts/stage -r '$(DESTDIR)$(PREFIX)'

dist: ## binaries, tars, debs and rpms for amd64 and arm64, into dist/
	@scripts/install-deps dist
	rm -rf dist
	scripts/dist dist

check: ## format, vet, lint, the house's rules, and packages with goroutines under -race
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run gofmt -w on these'; exit 1; }
	@test -z "$$($(TOOL) gofumpt -l $$(git ls-files '*.go'))" || { $(TOOL) gofumpt -l $$(git ls-files '*.go'); echo 'run gofumpt -w on these'; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags compose,root,clients,mutants ./...
	$(GO) fix -diff ./...
	$(TOOL) staticcheck ./...
	$(TOOL) staticcheck -tags root,clients ./testbed/... ./launcher/... ./dht/disk
	$(GO) test -count=1 -run '^TestTidy' .
	$(GO) test -race -short $(RACED)

# Small sizes, without root. The binaries of the build serve as the tests' own, and the
# flags are those of the build, so that packages are compiled once. `make check` vets.
test: export CGO_ENABLED := 0
test: export GOFLAGS := -trimpath
test: ## what every user can: units, scenes, scripts, some seeds, real MPI on virtual nodes: minutes
	@scripts/install-deps -n test
	@$(MAKE) --no-print-directory -s build
	FILCH_BIN=$(abspath $(BIN))/filch $(call SUM,test) --packages ./... -- -short -vet=off -p 2 -count=$(COUNT) -timeout 15m
	@echo 'not run: what needs root (other users, cgroups, full disks, network namespaces, Slurm), planted faults, all seeds: make test-all, as root'

# What `make test` leaves out. ROOTED holds packages of which all tests need root,
# SIZED those with simulations that are smaller with -short, and LARGE names these. TIMED
# names the tests of ./launcher/proc that -short leaves out.
ROOTED   := ./testbed/dashboard ./testbed/metrics ./testbed/netns ./testbed/mpi ./testbed/faults ./testbed/slurm
SIZED    := ./launcher/node ./mtc ./testbed/sim/baseline ./testbed/sim/flat ./testbed/sim/instance ./testbed/sim/store ./testbed/sim/tasks
LARGE    := ^TestChaos|^TestCrashAtEveryStep$$|^TestResumeFinishes|Seeds$$|^TestStoreDrains$$|^TestEfficiency$$|^TestMatrix
TIMED    := ^TestSilentLauncher$$|^TestKeeperStopped

# The simulations need both cores and no clock; the tests as root mostly wait for a clock.
# So the simulations run beside them, with the time that these leave over (SCHED_IDLE).
test-all: ## the rest, as root: other users, cgroups, network namespaces, Slurm, planted faults, all seeds
	@[ "$$(id -u)" = 0 ] || { echo 'make test-all needs root'; exit 1; }
	@scripts/install-deps -n test-all
	@$(MAKE) --no-print-directory -s build
	@chrt --idle 0 $(MAKE) --no-print-directory simulations & \
	$(MAKE) --no-print-directory rooted; rooted=$$?; \
	wait $$! && exit $$rooted

rooted:
	FILCH_BIN=$(abspath $(BIN))/filch $(call SUM,root) --packages ./... -- -tags root -run '^TestRoot' -vet=off -p 1 -count=$(COUNT) -timeout 15m
	FILCH_BIN=$(abspath $(BIN))/filch $(call SUM,hosts) --packages '$(ROOTED)' -- -tags root -vet=off -p 1 -count=$(COUNT) -timeout 20m
	$(call SUM,timed) --packages ./launcher/proc -- -run '$(TIMED)' -vet=off -count=$(COUNT) -timeout 15m

simulations:
	$(GO) test -count=1 -timeout 30m -tags mutants -run '^Test(Store)?Mutants' ./testbed/sim/instance ./testbed/sim/store ./testbed/sim/makespan ./testbed/sim/tasks ./launcher/node ./mtc ./mtc/before ./mtc/plan ./mtc/policy ./mtc/queue ./mtc/record ./mtc/search
	$(GO) test -count=1 -tags mutants -run '^TestMutants' ./dht/members ./dht/store ./slots ./testbed/sim/pool
	$(call SUM,large) --packages '$(SIZED)' -- -run '$(LARGE)' -vet=off -p 1 -count=$(COUNT) -timeout 30m

# DIST=DIR takes the packages from there instead of building them.
testbed: build $(if $(DIST),,dist) ## containers: nodes killed, paused, cut off under MPI; the packages on a bare Debian
	@scripts/install-deps compose
	FILCH_BIN=$(abspath $(BIN))/filch FILCH_DIST=$(abspath $(or $(DIST),dist)) $(GO) test -tags compose -count=1 -timeout 15m -v ./testbed/compose

sim: ## the shipped cores in virtual time, beside ideals: N=nodes SEEDS=fault seeds
	$(GO) run ./testbed/sim/instance/cmd -nodes $(N) -seeds $(SEEDS)
	$(GO) run ./testbed/sim/instance/cmd -nodes 256 -jobs 100 -tasks 25000 -seeds 0
	$(GO) run ./testbed/sim/store/cmd -seeds $(SEEDS)
	$(GO) run ./testbed/sim/makespan/cmd
	$(GO) run ./testbed/sim/baseline/cmd
	$(GO) run ./testbed/sim/flat/cmd -nodes 100000
	$(GO) test -count=1 -timeout 20m -tags mutants -run '^Test(Store)?Mutants' -v ./testbed/sim/instance ./testbed/sim/store ./testbed/sim/tasks

papers: ## the papers' figures beside ours, a page in OUT: SIZE=small (minutes) or full (hours; goes on where it stopped)
	$(GO) run ./testbed/sim/papers/cmd -size $(SIZE) -out $(OUT)

sim-million: ## a million seeds of the metadata store: hours
	$(GO) run ./testbed/sim/store/cmd -seeds 1000000

bench: build ## side by side with the launchers and stores that are installed
	@scripts/install-deps demo store
	$(GO) run ./testbed/bench -filch $(abspath $(BIN))/filch $(ARGS)
	$(GO) run ./testbed/sim/makespan/cmd -only order

proof: build ## every promise in full size, in one table
	@scripts/install-deps test-all compose rivals clients
	$(GO) run ./testbed/bench/proof -filch $(abspath $(BIN))/filch

golden: ## rewrite the golden files; read the diff before you commit it
	$(GO) test -count=1 -run '^TestScenes$$' ./launcher/node -args -rewrite
	FILCH_GOLDEN=1 $(GO) test -count=1 ./cmd/filch ./cmd/filch/manual

fuzz: ## every fuzz target for T each
	@scripts/fuzz $(T)

demo: ## four launchers on this machine and an MPI program over them
	@scripts/install-deps demo
	@$(MAKE) --no-print-directory -s build BIN=$(BIN)
	@scripts/demo $(abspath $(BIN))/filch

man: build ## the manual pages of the binary, into BIN/man
	@mkdir -p $(BIN)/man
	$(BIN)/filch man --install $(BIN)/man

clean: ## what build made
	rm -rf $(BIN) $(PAYLOAD) $(SCREEN) $(HELPER)
