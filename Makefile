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

.PHONY: help test lint bench bench-peers fuzz soak

help:
	@echo 'make test   all tests with the race detector; installs what they need'
	@echo 'make lint   gofumpt, go mod tidy, go vet, staticcheck, sizes, links'
	@echo 'make bench  medians of BENCHCOUNT=$(BENCHCOUNT) runs of every benchmark'
	@echo 'make bench-peers  memory.Store beside other limiters, into docs/performance.md; some 15 minutes'
	@echo 'make fuzz   every fuzz target for FUZZTIME=$(FUZZTIME)'
	@echo 'make soak   every fuzz target for 5 minutes, then the long tests'

test:
	scripts/need.sh
	THROTTLE_REQUIRE=1 scripts/each go test -count=1 $(RACE) ./...

lint: $(TOOLS)
	files=$$($(BIN)/gofumpt -l .); [ -z "$$files" ] || { echo "not in gofumpt's form:" $$files; exit 1; }
	GOWORK=off scripts/each go mod tidy -diff
	GOWORK=off scripts/each go vet ./...
	scripts/each $(BIN)/staticcheck ./...
	go test -run '^TestHouse' ./internal/arch

bench: $(TOOLS)
	scripts/each go test -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) ./... | tee $(BIN)/bench.txt
	$(BIN)/benchstat medians=$(BIN)/bench.txt

# PEERS=- prints the tables instead.
PEERS ?= $(CURDIR)/docs/performance.md

bench-peers:
	cd bench && go test -count 1 -run '^TestPeersTable$$' -timeout 20m -peers $(PEERS) .

fuzz:
	FUZZTIME=$(FUZZTIME) scripts/each $(CURDIR)/scripts/fuzz

soak:
	$(MAKE) fuzz FUZZTIME=5m
	THROTTLE_SOAK=1 scripts/each go test -run Soak -timeout 60m ./...

$(TOOLS): tools/go.mod tools/go.sum
	mkdir -p $(BIN)
	cd tools && GOWORK=off GOBIN=$(BIN) go install tool
	touch $@
