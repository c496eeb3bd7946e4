# Every target goes through all modules of go.work; ./... alone sees only one.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BENCHCOUNT ?= 10
FUZZTIME ?= 10s
# make test RACE= goes without the race detector.
RACE ?= -race

# Tools are built once for each version of theirs and of Go.
BIN := $(CURDIR)/.bin
TOOLS := $(BIN)/built-by-$(shell go env GOVERSION)

.PHONY: help test integration lint licenses api bench bench-peers fuzz soak

help:
	@echo 'make test   all tests, with the race detector where goroutines are; installs what they need'
	@echo 'make integration  what needs a JVM or minutes, against real parts, which it installs; some 20 minutes'
	@echo 'make lint   gofumpt, go mod tidy, go vet, staticcheck, sizes, links'
	@echo 'make licenses   the licences of what the program links, into it'
	@echo 'make api VERSION=v1.2.3  what that release changes of the API; tags nothing'
	@echo 'make bench  medians of BENCHCOUNT=$(BENCHCOUNT) runs of every benchmark'
	@echo 'make bench-peers  memory.Store beside other limiters, into docs/performance.md; some 15 minutes'
	@echo 'make fuzz   every fuzz target for FUZZTIME=$(FUZZTIME)'
	@echo 'make soak   every fuzz target for 5 minutes, then the long tests'

test:
	scripts/need.sh
	RACE='$(RACE)' THROTTLE_REQUIRE=1 scripts/tests

# All tests of Redis on Redis 8 and on Valkey, which notices a step of its clock
# up to a tenth of a second late, so TestFaultClockStep is not run on it; many
# processes; DynamoDB Local, Kafka and Cassandra, which need a JVM; alarms by
# promtool, deploy/ by kustomize, the schemas of Kubernetes and hadolint; nginx
# beside its simulation; the limiters of nginx and Envoy, identified from outside; Java
# behind the egress proxy; Envoys that share a quota; the program installed from a
# release.
integration:
	scripts/need.sh
	scripts/need-integration.sh
	cd integration && for server in redis-server-8 valkey-server; do \
		echo "== all that is Redis is $$server"; path=$$PWD/../.bin/$$server; \
		[ -x "$$path" ] || path=$$(command -v $$server) || { echo "$$server is MISSING: NOT tested"; exit 1; }; \
		THROTTLE_REQUIRE=1 REDIS_SERVER=$$path go test -count=1 -timeout 20m -run 'Redis|Cluster|Lost|Sentinel|Parted|Primaries|Memory|Linear' .; \
	done
	cd integration && THROTTLE_REQUIRE=1 THROTTLE_SOAK=1 go test -count=1 -v -timeout 30m -run '(ColdStart|Stops|SentinelBack)Soak' .
	cd integration && THROTTLE_SOAK=1 go test -count=1 -v -timeout 20m ./crowd
	THROTTLE_INTEGRATION=1 go test -count=1 -v ./internal/release
	cd examples/dynamodb && THROTTLE_INTEGRATION=1 go test -count=1 -timeout 20m ./...
	cd integration && THROTTLE_REQUIRE=1 THROTTLE_INTEGRATION=1 go test -count=1 -run JVM ./rig
	cd examples/kafka-cassandra && THROTTLE_REQUIRE=1 THROTTLE_INTEGRATION=1 go test -count=1 -v -timeout 20m -run Real ./...
	cd examples/kafka-cassandra && go test -race -count=1 .
	cd throttleotel && THROTTLE_INTEGRATION=1 PATH=$$PATH:$$PWD/../.bin go test -count=1 -run Promtool .
	cd cmd/throttle && THROTTLE_INTEGRATION=1 go test -count=1 -run "Promtool|Metrics|Systemd|Kustomize|Kubernetes|Container" . ./internal/admin
	cd cmd/throttle && THROTTLE_INTEGRATION=1 go test -count=1 -run Java ./internal/ca ./internal/intercept
	cd cmd/throttle && THROTTLE_REQUIRE=1 THROTTLE_SOAK=1 go test -count=1 -timeout 10m -run EnvoyQuota .
	cd cmd/throttle && THROTTLE_INTEGRATION=1 THROTTLE_SOAK=1 go test -count=1 -v -timeout 20m -run 'SoakKinds|SoakNginx' ./internal/demo
	cd cmd/throttle && THROTTLE_INTEGRATION=1 THROTTLE_SOAK=1 PATH=$$PATH:$$PWD/../../.bin go test -count=1 -v -timeout 20m -run 'SoakIdentify' ./internal/probe

lint: $(TOOLS)
	files=$$($(BIN)/gofumpt -l .); [ -z "$$files" ] || { echo "not in gofumpt's form:" $$files; exit 1; }
	GOWORK=off scripts/each go mod tidy -diff
	GOWORK=off scripts/each go vet ./...
	scripts/each $(BIN)/staticcheck ./...
	cd tools && export GOWORK=off && go mod tidy -diff && go vet ./... && $(BIN)/staticcheck ./...
	go test -count=1 -run '^TestHouse' ./internal/arch

licenses:
	mkdir -p $(BIN)
	cd tools && GOWORK=off go run ./licenses >$(BIN)/licenses.txt
	mv $(BIN)/licenses.txt cmd/throttle/internal/version/licenses.txt

api:
	scripts/release -n $(VERSION)

bench: $(TOOLS)
	scripts/each go test -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) ./... | tee $(BIN)/bench.txt
	$(BIN)/benchstat medians=$(BIN)/bench.txt

# PEERS=- prints the tables instead.
PEERS ?= $(CURDIR)/docs/performance.md

bench-peers:
	cd bench && go test -count 1 -run '^Test(CellsOwe|PeersTable)$$' -timeout 20m -peers $(PEERS) .

fuzz:
	FUZZTIME=$(FUZZTIME) scripts/each $(CURDIR)/scripts/fuzz

soak:
	$(MAKE) fuzz FUZZTIME=5m
	THROTTLE_SOAK=1 scripts/each go test -run Soak -timeout 60m ./...

$(TOOLS): tools/go.mod tools/go.sum
	mkdir -p $(BIN)
	cd tools && GOWORK=off GOBIN=$(BIN) go install tool
	touch $@
