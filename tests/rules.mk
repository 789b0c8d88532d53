# tests/rules.mk: how tests, fuzzers and benches are linked and run. The Makefile includes it.

# A library that makes syncs of a daemon under test slow.
$(BUILD)/tests/bench/slow_sync.so: tests/bench/slow_sync.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -fvisibility=default -shared -fPIC -o $@ $<
$(BUILD)/tests/bench/bench_journal: | $(BUILD)/tests/bench/slow_sync.so

$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(HARNESS) $(SUPPORT_A) $(GPU_A) $(DAEMON_A) \
        $(KERNEL_A) $(CLI_A) $(CLIENT_A)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIB) -lminizip $(CRITERION) $(BENCH_LIBS)

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(HARNESS) $(SUPPORT_A) $(GPU_A) $(DAEMON_A) \
        $(KERNEL_A) $(CLI_A) $(CLIENT_A)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIB) -lminizip $(CRITERION)

# Of a folder all at once: what a change costs is one link.
.SECONDEXPANSION:
$(BUILD)/tests/check/test_%: $$(call obj,$$(wildcard tests/unit/$$*/test_*.c)) \
        $(HARNESS) $(SUPPORT_A) $(GPU_A) $(DAEMON_A) $(KERNEL_A) $(CLI_A) $(CLIENT_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIB) -lminizip $(CRITERION)

$(BUILD)/tests/gpu/%.o: ISA_FLAGS := $(CUDA_INCLUDE)
GPU_TEST_O := $(call obj,tests/support/cluster_reference.c tests/support/spread_graphs.c \
              tests/support/spread_reference.c tests/support/spread_rows.c)
$(BUILD)/tests/gpu/%: $(BUILD)/tests/gpu/%.o $(GPU_TEST_O) $(GPU_A) $(DAEMON_A) $(KERNEL_A) \
        $(CUDA_A)
	$(call say,LD,$@)
	$(Q)$(NVCC) -cudart static -Wno-deprecated-gpu-targets -Xcompiler=-pthread -o $@ $< \
	    $(GPU_TEST_O) $(GPU_A) $(DAEMON_A) $(CUDA_A) $(KERNEL_A) -lm -ldl

# A fuzz target by itself, and with a main that replays its corpus.
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(DAEMON_A) $(KERNEL_A) $(CLI_A) \
        $(CLIENT_A)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(if $(FUZZ),-fsanitize=fuzzer) -o $@ $^ $(DAEMON_LIB) -lminizip

$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o \
        $(DAEMON_A) $(KERNEL_A) $(CLI_A) $(CLIENT_A)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIB) -lminizip

tests: all $(TEST_BIN) $(REPLAY_BIN) $(SIM_BIN)
unit-tests: $(UNIT_BIN) $(REPLAY_BIN)
benches: all $(BENCH_BIN)

## test: install what is missing, build, run every test
# TEST_SANITIZERS="both thread" adds the unit tests and corpora of those builds;
# TEST_SANITIZERS_PART=1: of exhaustive ones a part, there; TEST_SANITIZERS_PARSERS=1: which lines
# of the parsers they run is counted, for tests/coverage build/both --parsers.
TEST_SANITIZERS ?=
test:
	@.ci/install-deps build test
	$(SUBMAKE) run-tests

sanitized-%:
	$(SUBMAKE) SAN=$* BUILD=build/$* $(if $(TEST_SANITIZERS_PARSERS),COVERAGE=parsers) unit-tests

run-tests: tests $(addprefix sanitized-,$(TEST_SANITIZERS))
	$(Q)for san in $(TEST_SANITIZERS); do find build/$$san -name '*.gcda' -delete; done
	$(Q)tests/run --build $(BUILD) $(if $(TEST_SANITIZERS_PART),--part) \
	    $(TEST_BIN) $(REPLAY_BIN) $(TEST_SH) $(foreach san,$(TEST_SANITIZERS),\
	    $(patsubst $(BUILD)/%,build/$(san)/%,$(UNIT_BIN) $(REPLAY_BIN)))

## check: build and run the unit tests alone, of exhaustive ones a part
check:
	$(SUBMAKE) run-check

run-check: $(CHECK_BIN)
	$(Q)ENGRAM_TEST_QUICK=1 tests/run --build $(BUILD) $(CHECK_BIN)

# ThreadSanitizer is run on what make check has, without ops, gpu, store and net, whose tests are
# mostly arithmetic and take too long under it. Other programs start daemons, which it would not see
# into.
## thread: the unit tests under the thread sanitizer
thread:
	@.ci/install-deps build test
	$(SUBMAKE) SAN=thread BUILD=build/thread run-thread

THREAD_BIN := $(filter %/test_base %/test_cards %/test_cli %/test_client %/test_exec %/test_heap \
              %/test_http %/test_learn %/test_report %/test_request %/test_sched %/test_wire,\
              $(CHECK_BIN))
run-thread: $(THREAD_BIN)
	$(Q)ENGRAM_TEST_QUICK=1 tests/run --build $(BUILD) $(THREAD_BIN)

## soak: run the programs that start a daemon SOAK_TIMES (50) times beside busy loops
SOAK_TIMES ?= 50
soak:
	$(SUBMAKE) tests
	$(Q)tests/soak --build $(BUILD) --times $(SOAK_TIMES) $(filter \
	    $(BUILD)/tests/integration/% $(BUILD)/tests/torture/%,$(TEST_BIN)) \
	    $(filter tests/integration/%,$(TEST_SH))

## sim: the whole daemon on a virtual clock: SEEDS stories (2000), from SEED (1) on
SEEDS ?= 2000
SEED  ?= 1
sim: $(SIM_BIN)
	$(Q)$(SIM_BIN) --seeds $(SEEDS) --first $(SEED)

## coverage: line coverage of the whole suite; fails where a parser has less than 95 %
coverage:
	@.ci/install-deps build test coverage
	$(SUBMAKE) COVERAGE=1 BUILD=build/coverage run-coverage

run-coverage: tests
	$(Q)find $(BUILD) -name '*.gcda' -delete
	$(Q)code=0; tests/run --build $(BUILD) $(TEST_BIN) $(REPLAY_BIN) $(TEST_SH) || code=1; \
	tests/coverage $(BUILD) && exit $$code

# The unit tests and corpora that are about them suffice for the parsers.
PARSER_BIN := $(filter %/test_base %/test_http %/test_wire %/test_client %/test_cli,\
              $(CHECK_BIN)) $(REPLAY_BIN)
## parsers: line coverage of the parsers of foreign bytes alone, by unit tests and corpora
parsers:
	@.ci/install-deps build test coverage
	$(SUBMAKE) COVERAGE=1 BUILD=build/coverage run-parsers

run-parsers: $(PARSER_BIN)
	$(Q)find $(BUILD) -name '*.gcda' -delete
	$(Q)code=0; tests/run --build $(BUILD) $(PARSER_BIN) || code=1; \
	tests/coverage $(BUILD) --parsers && exit $$code

## fuzz: run each fuzz target for FUZZ_SECONDS (30)
FUZZ_SECONDS ?= 30
fuzz:
	@.ci/install-deps build fuzz
	$(SUBMAKE) FUZZ=1 BUILD=build/fuzz run-fuzz

run-fuzz: $(FUZZ_BIN)
	$(Q)tests/fuzz/fuzz_all $(BUILD) $(FUZZ_SECONDS) $(FUZZ_BIN)

## bench: measure, beside peers, in one run (QUICK=1: a first look; BASELINE=FILE: beside FILE)
# What it prints is kept in build/bench.txt; BASELINE names one that was kept, and fails where a
# figure is worse by more than MARGIN percent.
MARGIN ?= 25
BENCH_VENV := build/bench-venv
bench:
	@.ci/install-deps build bench
	$(SUBMAKE) benches $(BENCH_VENV)/ready
	$(Q){ $(MAKE) --no-print-directory run-bench; echo $$? > build/bench.code; } | \
	    tee build/bench.txt; \
	    code=$$(cat build/bench.code); $(if $(BASELINE),tests/bench/baseline --margin $(MARGIN) \
	    $(BASELINE) build/bench.txt || code=1;) exit $$code

run-bench:
	$(Q)failed=0; for bench in $(BENCH_BIN); do \
	    echo "== $$(basename $$bench)"; $$bench $(if $(QUICK),--quick) || \
	        [ $$? = 77 ] || failed=1; done; \
	for bench in $(wildcard tests/bench/bench_*.py); do \
	    echo "== $$(basename $$bench)"; \
	    case $$bench in *bench_peers.py) quick=--quick ;; *) quick="--runs 3" ;; esac; \
	    $(BENCH_VENV)/bin/python $$bench --build $(BUILD) $(if $(QUICK),$$quick) || failed=1; done; \
	exit $$failed

$(BENCH_VENV)/ready:
	$(Q)$(PYTHON) -m venv --clear $(BENCH_VENV)
	$(Q)$(BENCH_VENV)/bin/python -m pip install -q --disable-pip-version-check faiss-cpu \
	    numpy scipy threadpoolctl usearch
	$(Q)touch $@
