# run: build and do the main job. test: everything CI does. bench: against peers. deps: the peers, from Debian.
# bpf: compile the eBPF programs anew, to the same bytes. web: the pages, likewise.
# dist: a static binary in dist/, which runs on any Linux and in an empty container; with the licences of what is in it, and a
# bill of materials.
.PHONY: run build dist test lint deps bench bpf web fuzz fuzz-check clean

CARGO ?= cargo
SCENARIO ?= telemetry

run: build
	target/release/weir lab run $(SCENARIO) $(ARGS)

build:
	$(CARGO) build --release --locked -p weir

# What is in C (ring) needs no C library: the machine's own compiler makes it, unless there is one for musl.
ARCH := $(shell uname -m)
MUSL = $(ARCH)-unknown-linux-musl
DIST = $${CARGO_TARGET_DIR:-target}/$(MUSL)/dist/weir
HAS_MUSL = rustup target add $(MUSL) 2>/dev/null || [ -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)" ]
CC_MUSL = CC_$(ARCH)_unknown_linux_musl
dist:
	@$(HAS_MUSL) || { echo "dist: needs the Rust target $(MUSL)"; exit 1; }
	$(CC_MUSL)="$${$(CC_MUSL):-$$(command -v $(ARCH)-linux-musl-gcc || echo cc)}" \
	    $(CARGO) build --profile dist --locked -p weir --target $(MUSL)
	mkdir -p dist
	cp $(DIST) deploy/container/Containerfile deploy/container/tee.toml dist/
	$(CARGO) run --quiet --locked -p notices -- dist $(MUSL)
	cd dist && sha256sum weir > weir.sha256 && cat weir.sha256

# Tests that draw at random print their seed; WEIR_SEED repeats one, for proptest's cases, too.
ifdef WEIR_SEED
export WEIR_SEED
export PROPTEST_RNG_SEED = $(WEIR_SEED)
endif

# The libraries' tests make namespaces: an ordinary user runs them in a user namespace, as `weir` itself does.
AS_ROOT = $(shell [ "$$(id -u)" = 0 ] || echo unshare --map-root-user --)

# The tests in namespaces measure time: they have the machine to themselves, one after another. What is deployed is the
# static binary: without Rust's target for it, its tests say so and are skipped. The last line tells what was skipped, which
# libtest counts as passed; with CI=true it has failed before, but for what the machine did not let be judged.
SKIPPED = $(CURDIR)/target/skipped
test: deps
	@if $(HAS_MUSL); then $(MAKE) --no-print-directory dist; \
	else echo "dist: no Rust target $(MUSL) to be had; tests of the static binary are skipped"; rm -rf dist; fi
	$(CARGO) test --workspace --locked --no-run
	@mkdir -p target && : >$(SKIPPED)
	WEIR_SKIPPED=$(SKIPPED) $(AS_ROOT) $(CARGO) test --workspace --locked --no-fail-fast --lib --bins -- --test-threads=$$(nproc)
	$(AS_ROOT) $(CARGO) test --workspace --locked --doc
	WEIR_SKIPPED=$(SKIPPED) $(AS_ROOT) $(CARGO) test --workspace --locked --no-fail-fast --test '*' -- --test-threads=1
	@sed 's/\(.*\)\t\(.*\)/skipped: \2: \1/' $(SKIPPED)
	@because=$$(cut -f1 $(SKIPPED) | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2 (\1)/' | paste -sd';' | sed 's/;/; /g'); \
	echo "skipped: $$(wc -l <$(SKIPPED))$${because:+, because: $$because}"

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Real peers that tests and benchmarks talk to; without the right to install, tests that miss one say so and are skipped.
# Those that would start services are not installed: peers.sh unpacks them below target/.
PEERS = iperf3:iperf3 nft:nftables python3:python3 ip:iproute2 tc:iproute2 systemd-analyze:systemd buildah:buildah tcpdump:tcpdump node:nodejs npm:npm chromium:chromium
deps:
	@missing=""; for p in $(PEERS); do \
	    PATH=$$PATH:/usr/sbin command -v $${p%%:*} >/dev/null || missing="$$missing $${p##*:}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	missing=$$(printf ' %s\n' $$missing | sort -u | tr -d '\n'); \
	if [ "$$(id -u)" = 0 ]; then sudo=""; elif sudo -n true 2>/dev/null; then sudo="sudo -n"; \
	else echo "deps: no right to install$$missing; tests that need them are skipped"; exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo "deps: install these for all tests:$$missing"; exit 0; fi; \
	$$sudo apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing >/dev/null || \
	    echo "deps: cannot install$$missing; tests that need them are skipped"
	@crates/testbed/peers.sh
	@crates/testbed/python.sh
	@! command -v npm >/dev/null || $(MAKE) --no-print-directory web/node_modules || \
	    echo "deps: cannot install what web/package.json names; tests of the pages are skipped"

bench: deps
	@crates/testbed/peers.sh nfacctd:pmacct:usr/sbin/nfacctd sfacctd:pmacct:usr/sbin/sfacctd \
	    socat:socat:usr/bin/socat influxd:influxdb:usr/bin/influxd
	$(CARGO) run --release --locked -p bench-emulator
	$(CARGO) run --release --locked -p bench-dgram
	$(CARGO) run --release --locked -p bench-tee
	$(CARGO) run --release --locked -p bench-loss
	$(CARGO) run --release --locked -p bench-sflow
	$(CARGO) run --release --locked -p bench-monitor
	$(CARGO) run --release --locked -p bench-protect
	$(CARGO) build --release --locked -p weir && $(CARGO) run --release --locked -p bench-lab

# Another major version of clang makes other bytes. Sources are named relative to the folder, so its place does not matter.
CLANG_MAJOR = 14
CLANG = $$(command -v clang-$(CLANG_MAJOR) || echo clang)
BPF_CFLAGS = -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -fdebug-compilation-dir=. -ffile-prefix-map=$$PWD=.
bpf:
	@if ! $(CLANG) -dumpversion 2>/dev/null | grep -q '^$(CLANG_MAJOR)\.'; then \
	    if [ "$$(id -u)" = 0 ]; then sudo=""; else sudo="sudo -n"; fi; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	        $$sudo apt-get install -y -qq --no-install-recommends clang-$(CLANG_MAJOR) llvm-$(CLANG_MAJOR) >/dev/null; fi; \
	found=$$($(CLANG) -dumpversion) || { echo "bpf: needs clang $(CLANG_MAJOR)"; exit 1; }; \
	[ "$${found%%.*}" = $(CLANG_MAJOR) ] || \
	    echo "bpf: found clang $$found; the committed object was made by $(CLANG_MAJOR), its bytes will differ"
	cd crates/kernel/bpf && for name in loss agent; do $(CLANG) $(BPF_CFLAGS) -c $$name.bpf.c -o $$name.bpf.o && \
	    $$(command -v llvm-strip-$(CLANG_MAJOR) || echo llvm-strip) -g $$name.bpf.o || exit 1; done

# Checks the pages' sources and builds them into the rooms that serve them. The lock pins every package.
web:
	@if ! command -v npm >/dev/null; then \
	    if [ "$$(id -u)" = 0 ]; then sudo=""; else sudo="sudo -n"; fi; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	        $$sudo apt-get install -y -qq --no-install-recommends nodejs npm >/dev/null || \
	    { echo "web: needs node and npm"; exit 1; }; fi
	@$(MAKE) --no-print-directory web/node_modules
	cd web && npm run --silent lint && ./build.sh

web/node_modules: web/package-lock.json
	cd web && npm ci --silent
	@touch $@

# Without cargo-fuzz the targets are only checked. What ships is where scenarios begin.
fuzz:
	@if ! $(CARGO) +nightly fuzz --version >/dev/null 2>&1; then \
	    echo "fuzz: no cargo-fuzz (cargo install cargo-fuzz): checking only that targets compile"; \
	    exec $(MAKE) --no-print-directory fuzz-check; fi; \
	cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do \
	    mkdir -p corpus/$$target; seeds=$$([ $$target = scenario ] && echo ../scenarios); \
	    $(CARGO) +nightly fuzz run $$target corpus/$$target $$seeds -- -max_total_time=60 || exit 1; done

# Shares what `make lint` has checked. Nothing is linked: libFuzzer, which wants a C++ compiler, is only named.
fuzz-check:
	cd fuzz && CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a \
	    $(CARGO) check --locked --target-dir $${CARGO_TARGET_DIR:-../target}

clean:
	$(CARGO) clean
