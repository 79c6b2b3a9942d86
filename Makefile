# Weir. Needs Go and make; everything else is optional or installed by `make tools`.

SHELL := /bin/bash

# The programs: those of the folders that have a main.
PROGRAMS := $(patsubst %/main.go,%,$(wildcard $(addsuffix /main.go,proxy loadgen target advisor bench)))
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -X weir/internal/program/service.version=$(VERSION)
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help build test quick race vet fmt fuzz bench bench-quick bench-all bench-setup bench-attack bench-restart bench-protect chaos demo demo-gate demo-deferred demo-redis demo-postgres images deploy-test cover clean tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## static binaries of all programs, into bin/
	@test -n "$(PROGRAMS)" || { echo "build: no program has a main.go" >&2; exit 1; }
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o bin/ $(addprefix ./,$(PROGRAMS))

test: tools ## what must pass before a commit: gofmt, make vet, all tests with the race detector
	@.ci/test

quick: ## a first answer in seconds: gofmt, vet, the tests of what is pure
	@.ci/quick

race: ## all tests with the race detector, nothing else (needs a C compiler)
	go test -race ./...

vet: ## go vet, staticcheck and govulncheck
	@.ci/vet

fmt: ## formats all Go files
	gofmt -w .

fuzz: ## every fuzz target for FUZZTIME (30s)
	@.ci/fuzz $(FUZZTIME)

bench: build ## speed compared with peers, scenarios, the advisor; updates BENCHMARKS.md (twenty minutes)
	bin/bench suite usual

bench-quick: build ## a first look in three minutes
	bin/bench suite quick

bench-all: build ## all experiments with the full matrix of scenarios (five and a half hours)
	bin/bench suite all

bench-setup: ## installs the programs that bench compares with, where possible
	@.ci/install-tools .ci/peers

bench-attack: build ## the effect of attacks on good traffic
	bin/bench attack

bench-restart: build ## replaces the proxy twenty times under load
	bin/bench restart

bench-protect: build ## an overloaded target behind Weir and peers; resumes where it was stopped (130 minutes)
	bin/bench suite protect

chaos: build ## a million exchanges with resets, half closes, tunnels, slow peers and target restarts
	bin/bench chaos

# Status 3: this machine was too busy for the load, which is no failure.
demo: build ## starts everything, plays the scenarios briefly and shows what happened
	bin/bench demo || test $$? -eq 3

demo-gate: build ## a target loses half its speed, without the gate and with it; draws a picture of both runs (a minute)
	bin/bench demo-gate || test $$? -eq 3

QUEUE ?= file
demo-deferred: build ## shops send five times their limits; what is refused is delivered later (QUEUE=file, redis or postgres: that queue only)
	bin/bench demo-deferred $(QUEUE) || test $$? -eq 3

demo-redis: build ## two proxies, one Redis, killed and restarted under load
	bin/bench demo-redis || test $$? -eq 3

demo-postgres: build ## the same with PostgreSQL
	bin/bench demo-postgres || test $$? -eq 3

images: ## container images of all programs, from scratch (needs the Docker engine)
	@deploy/docker/build $(VERSION) latest

deploy-test: tools ## images, compose, Prometheus, Grafana, Kubernetes, systemd; says what could not be tried here
	go test -count=1 -v ./deploy/...
	cd deploy/check && go test -count=1 -v ./...

cover: ## test coverage: per function in cover.txt, total here
	go test -coverprofile=cover.out ./...
	@go tool cover -func=cover.out > cover.txt
	@tail -n 1 cover.txt

clean: ## removes what was built
	rm -rf bin cover.out cover.txt

tools: ## installs the servers that tests run against, where it can
	@.ci/install-tools
