# Sluice. `make help` lists the targets.

SHELL := /bin/sh

# The commit goes into the binary through the linker, not through Go's own
# stamp: that one fails in a clone which another user owns.
export GOFLAGS := $(filter-out -buildvcs%,$(GOFLAGS)) -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

BIN      := bin/sluice
GOLANGCI := go tool -modfile=tools/go.mod golangci-lint
SOURCES  := $(wildcard cmd internal bench)
SCRIPTS  := .ci/run $(wildcard scripts/*)

TESTFLAGS ?= -count=1 -timeout=20m
BENCH     ?= .
BENCHTIME ?= 1s
BENCHPKG  ?= ./...
FUZZTIME  ?= 2m

# Of make chaos, make limits and make soak: an engine (loop, goroutine or standard; none:
# each). Of make chaos: how many requests a second there are. Of make soak: how
# many requests are broken off at random, how many of each method meet connections
# that just close, and how many connections are idle. SOAKRUN picks tests.
ENGINE    ?=
CHAOS     ?= 500
SOAK      ?= 1000000
IDLE_RACE ?= 100000
IDLE      ?= 10000
SOAKRUN   ?= ^Test(Soak|IdleRace|IdleMemory|Slow.*|WaitHoldsUpNobody|AdminWhileSaturated|LargeFiles)$$

ROUNDS    ?= 5
DURATION  ?= 1.5s
ONLY      ?=
PROFILE   ?= -c 64

.DEFAULT_GOAL := help
.PHONY: help run build test lint fmt docs bench microbench profile fuzz soak chaos limits cover clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## build, and serve the demo: a gateway and three services
	$(BIN) demo

build: ## build bin/sluice
	go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/sluice

test: ## install what the tests need, and run all of them with the race detector
	@scripts/test-setup
	PATH="$$PATH:/usr/sbin:/sbin" go test -race $(TESTFLAGS) ./...
	go -C bench test -race $(TESTFLAGS) ./...

lint: ## formatting, vet, lint rules, module files, generated documents, scripts
	@unformatted=$$(gofmt -s -l $(SOURCES)); \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt mends it):" $$unformatted >&2; exit 1; fi
	go vet ./...
	go -C bench vet ./...
	$(GOLANGCI) run --allow-parallel-runners ./...
	cd bench && $(subst tools/,../tools/,$(GOLANGCI)) run --allow-parallel-runners ./...
	go mod tidy -diff
	go -C tools mod tidy -diff
	go -C tools/peers mod tidy -diff
	go -C bench mod tidy -diff
	go run ./cmd/sluice schema --markdown | diff -u docs/configuration.md - || { echo 'docs/configuration.md is not current: make docs' >&2; exit 1; }
	@scripts/check-scripts $(SCRIPTS)

fmt: ## format all Go files, imports included
	$(GOLANGCI) fmt ./...
	cd bench && $(subst tools/,../tools/,$(GOLANGCI)) fmt ./...

docs: build ## write docs/configuration.md from the code
	$(BIN) schema --markdown >docs/configuration.md

bench: build ## measure beside nginx, HAProxy, Caddy and others (ROUNDS, DURATION, ONLY)
	@scripts/bench-setup
	@mkdir -p bin/bench
	go -C bench build -o ../bin/bench/bench .
	PATH="$$PATH:/usr/sbin:/sbin" bin/bench/bench -rounds $(ROUNDS) -duration $(DURATION) -only '$(ONLY)'

microbench: ## run the benchmarks of the packages (BENCH, BENCHTIME, BENCHPKG)
	@scripts/machine
	go test -run='^$$' -bench='$(BENCH)' -benchtime=$(BENCHTIME) -benchmem $(BENCHPKG)
	$(if $(filter ./... ./internal/ratelimit,$(BENCHPKG)),go -C bench run ./decision)

profile: ## record where processor time goes under one load (PROFILE: options of scripts/profile)
	scripts/profile $(PROFILE)

fuzz: ## run every fuzzer, one after another, for FUZZTIME each
	scripts/fuzz $(FUZZTIME)

soak: ## run the tests of load and faults at length, on a machine with nothing else to do (ENGINE, SOAK, IDLE_RACE, IDLE, SOAKRUN)
	@scripts/test-setup
	@scripts/machine
	PATH="$$PATH:/usr/sbin:/sbin" go test -race -count=1 -timeout=24h -v -run='$(SOAKRUN)' ./internal/e2e \
		-long -engine='$(ENGINE)' -soak=$(SOAK) -idle-race=$(IDLE_RACE) -idle=$(IDLE)

chaos: ## have endpoints fail under a steady load, CHAOS requests a second, on a machine with nothing else to do (ENGINE, CHAOS)
	@scripts/machine
	go test -race -count=1 -timeout=1h -v -run='^TestChaos$$' ./internal/e2e -long -engine='$(ENGINE)' -chaos=$(CHAOS)

limits: ## hold limits to what they promise, alone and across gateways that share a Redis, on a machine with nothing else to do (ENGINE)
	@scripts/test-setup
	@scripts/machine
	PATH="$$PATH:/usr/sbin:/sbin" go test -race -count=1 -timeout=2h -v -run='^TestLimit' ./internal/e2e -long -engine='$(ENGINE)'

cover: ## run the tests and report their coverage
	@scripts/test-setup
	@mkdir -p bin
	PATH="$$PATH:/usr/sbin:/sbin" go test $(TESTFLAGS) -coverpkg=./cmd/...,./internal/... -coverprofile=bin/cover.out ./...
	go tool cover -html=bin/cover.out -o bin/cover.html
	go tool cover -func=bin/cover.out | tail -n 1

clean: ## remove what was built
	rm -rf bin
