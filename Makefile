# Engram Accel: one non-recursive Makefile. `make help` lists the targets.
#
#   SAN=address|undefined|both|thread   sanitizer build, in its own build directory; both: of the
#                                  first two
#   CUDA=auto|0|1                  build the GPU process: if nvcc is there | never | always
#   NVCC=/opt/cuda/bin/nvcc        which nvcc, of CUDA 11.0 or later; the one on PATH
#   CUDA_QUICK=1                   kernels that compile in a third of the time and run slower
#   COVERAGE=1                     gcov build, in its own build directory
#   COVERAGE=parsers               of parsers of foreign bytes alone; beside SAN=both, too
#   FUZZ=1                         clang build with libFuzzer's instrumentation (make fuzz sets it)
#   V=1                            show commands
#
# Files are found by folder, so adding one needs no line here:
#   kernels/cpu/*.c       arithmetic; NAME_avx2.c, NAME_avx512.c, NAME_neon.c get their flags
#   daemon/**/*.c         the daemon (daemon/main.c alone is not in the test library)
#   client/*.c, client/{calls,replies}/*.c  the C client;  client/cli/**/*.c  the command line tool
#   tests/*/**/test_*.c   one Criterion executable each;  tests/**/run_*.sh  one test each
#   tests/fuzz/fuzz_*.c   one fuzz target each, replayed over tests/fuzz/corpus/* by make test
#   tests/bench/bench_*.c one program each
#   kernels/cuda/*.cu     the GPU's arithmetic;  tests/gpu/gpu_*.c  one program each (gpu-bundle)

MAKEFLAGS  += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# The one place for the version (tests/house/run_version.sh); the soname has two parts of it.
VERSION    := 0.2.0
SOVERSION  := $(basename $(VERSION))
SAN        ?=
CUDA       ?= auto
COVERAGE   ?=
FUZZ       ?=
PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
DOCDIR     ?= $(PREFIX)/share/doc/engram-accel
SYSCONFDIR ?= /etc
DESTDIR    ?=
CC         := $(if $(filter default undefined,$(origin CC)),$(if $(FUZZ),clang,gcc),$(CC))
CXX        := $(if $(filter default undefined,$(origin CXX)),g++,$(CXX))
AR         := $(if $(filter default undefined,$(origin AR)),ar,$(AR))
PYTHON     ?= /usr/bin/python3
JOBS       ?= $(shell nproc)
Q          := $(if $(V),,@)
# A bare machine has no compiler until `make deps`: the questions below stay quiet then.
ARCH       := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)

VARIANT    := $(or $(SAN),$(if $(COVERAGE),coverage),$(if $(FUZZ),fuzz),release)
BUILD      ?= build/$(VARIANT)
# Make again, with all cores unless -j was given. The new make sees what was just installed.
MAKE_AGAIN  = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))
SUBMAKE     = +$(Q)$(MAKE_AGAIN)

ifneq ($(SAN),)
ifeq ($(filter $(SAN),address undefined both thread),)
$(error SAN must be address, undefined, both or thread, not '$(SAN)')
endif
SAN_FLAGS  := $(patsubst %,-fsanitize=%,$(if $(filter both,$(SAN)),address undefined,$(SAN))) \
              -fno-omit-frame-pointer -DENGRAM_SANITIZER \
              $(if $(filter undefined both,$(SAN)),-fno-sanitize-recover=undefined) \
              -Wno-maybe-uninitialized
endif
ifneq ($(FUZZ),)
SAN_FLAGS  := -fsanitize=address,fuzzer-no-link -fno-omit-frame-pointer -DENGRAM_SANITIZER
endif
COV_FLAGS  := $(if $(COVERAGE),--coverage -fprofile-update=atomic)
# The parsers of foreign bytes, whose lines tests/coverage counts.
PARSER_SRC := $(wildcard $(shell sed 's/\#.*//' tests/parsers))

# The GPU process: kernels/cuda/*.cu by nvcc. CUDA=auto builds it where nvcc is.
ifeq ($(filter $(CUDA),auto 0 1),)
$(error CUDA must be auto, 0 or 1, not '$(CUDA)')
endif
# An older nvcc may want an older compiler: NVCC_PREPEND_FLAGS="-ccbin g++-11", which it reads.
NVCC_ASKED := $(NVCC)
override NVCC := $(if $(filter 0,$(CUDA)),,$(shell command -v $(or $(NVCC_ASKED),nvcc)))
ifeq ($(NVCC)$(filter 0,$(CUDA)),)
ifneq ($(NVCC_ASKED)$(filter 1,$(CUDA)),)
$(error there is no $(or $(NVCC_ASKED),nvcc on PATH))
endif
endif
CUDA_SRC   := $(if $(NVCC),$(wildcard kernels/cuda/*.cu))
# Machine code for every architecture that nvcc lists (11.0's, if it cannot list them), and PTX of
# the newest for later ones.
ifneq ($(NVCC),)
ifeq ($(origin CUDA_ARCH),undefined)
ALL_ARCH   := 1
CUDA_ARCH  := $(or $(sort $(patsubst compute_%,%,$(filter compute_%,\
              $(shell $(NVCC) --list-gpu-arch 2>/dev/null)))),35 37 50 52 53 60 61 62 70 72 75 80)
endif
CUDA_PTX   ?= $(shell printf '%s\n' $(CUDA_ARCH) | sort -n | tail -1)
endif
NVCC_FLAGS := -std=c++14 -O3 -fmad=false -Xcompiler=-fPIC,-ffp-contract=off -I. \
              -Xfatbin=-compress-all -Wno-deprecated-gpu-targets \
              $(if $(WERROR),-Werror all-warnings)
# Kernels that no card will run are compiled in a third of the time, where nvcc (12.9) knows how.
# Those of *_wgmma.cu never are: of them only an optimized one tells what the card would wait for.
NVCC_QUICK := $(if $(and $(NVCC),$(CUDA_QUICK)),$(shell $(NVCC) --help 2>/dev/null | \
                grep -q -e --Ofast-compile && echo --Ofast-compile=max))
NVCC_ARCH  := $(foreach n,$(CUDA_ARCH),-gencode=arch=compute_$n,code=sm_$n) \
              -gencode=arch=compute_$(CUDA_PTX),code=compute_$(CUDA_PTX)
comma      := ,
# *_wgmma.cu is for compute capability 9.0 alone, with what 12.0 and later know of it.
NVCC_WGMMA := $(if $(and $(NVCC),$(filter 90,$(CUDA_ARCH)),$(shell $(NVCC) --version | \
                grep -o 'release 1[2-9]')),\
                -DSHADOW_WGMMA -gencode=arch=compute_90a$(comma)code=sm_90a)

# Every translation unit: no contraction of a*b+c, no fast-math (docs/arithmetic.md).
ARITHMETIC := -ffp-contract=off -fno-fast-math
WARNINGS   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
              -Wwrite-strings -Wundef -Wvla -Wno-unused-parameter -Werror=implicit \
              -Werror=incompatible-pointer-types $(if $(WERROR),-Werror)
CC_VERSION := $(shell $(CC) -dumpfullversion -dumpversion 2>/dev/null)
BUILD_TEXT := $(notdir $(CC)) $(CC_VERSION), $(ARCH), $(VARIANT)
CPPFLAGS   := -D_GNU_SOURCE -DENGRAM_VERSION='"$(VERSION)"' -DENGRAM_BUILD='"$(BUILD_TEXT)"' \
              -I. -I$(BUILD)/gen
# Instrumented code is built to be run once: so it compiles in half the time, kernels apart, and
# reports name lines as before. What may be uninitialized, only -O2 can tell.
OPT        ?= $(if $(SAN)$(COVERAGE)$(FUZZ),-O1,-O2)
DEBUG      ?= $(if $(SAN)$(COVERAGE)$(FUZZ),-g1,-g)
CFLAGS     := -std=gnu11 $(OPT) $(DEBUG) -fPIC -pthread -fvisibility=hidden \
              -fstack-protector-strong $(ARITHMETIC) $(WARNINGS) $(SAN_FLAGS) \
              $(if $(filter parsers,$(COVERAGE)),,$(COV_FLAGS))
LDFLAGS    := -pthread -Wl,-z,relro,-z,now -Wl,--as-needed $(SAN_FLAGS) $(COV_FLAGS)

NANOPB_LIB := -lprotobuf-nanopb
DAEMON_LIB := $(NANOPB_LIB) -luv -lcjson -lxxhash -lzstd -lcrypto -lsystemd -lmicrohttpd -lm
CLIENT_LIB := $(NANOPB_LIB) -lm
CLI_LIB    := $(CLIENT_LIB) -lcjson -lminizip -lxxhash -lzstd -lcrypto

# ---------------------------------------------------------------- files
KERNEL_SRC := $(filter-out %_avx2.c %_avx512.c %_neon.c,$(wildcard kernels/cpu/*.c))
ifeq ($(ARCH),x86_64)
KERNEL_SRC += $(wildcard kernels/cpu/*_avx2.c kernels/cpu/*_avx512.c)
endif
ifeq ($(ARCH),aarch64)
KERNEL_SRC += $(wildcard kernels/cpu/*_neon.c)
endif
DAEMON_SRC := $(filter-out daemon/main.c,$(wildcard daemon/*.c)) \
              $(filter-out $(wildcard daemon/gpu/*.c),$(wildcard daemon/*/*.c))
# The GPU process; device_cuda.c where there is nvcc, else device_none.c.
GPU_SRC    := $(filter-out daemon/gpu/main.c $(if $(NVCC),daemon/gpu/device_none.c,\
                daemon/gpu/device_cuda%.c),$(wildcard daemon/gpu/*.c))
CLIENT_SRC := $(wildcard client/*.c client/calls/*.c client/replies/*.c)
CLI_SRC    := $(wildcard client/cli/*.c client/cli/*/*.c)
PROTO_GEN  := $(BUILD)/gen/proto/engram_accel.pb

obj         = $(patsubst %.c,$(BUILD)/%.o,$(1))
KERNEL_A   := $(BUILD)/libkernels.a
DAEMON_A   := $(BUILD)/libdaemon.a
PROTO_O    := $(PROTO_GEN).o
GPU_A      := $(BUILD)/libgpu.a
GPU        := $(BUILD)/engram-accel-gpu
CUDA_A     := $(if $(CUDA_SRC),$(BUILD)/libkernels_cuda.a)
CLIENT_A   := $(BUILD)/libengram_accel.a
CLIENT_SO  := $(BUILD)/libengram_accel.so.$(VERSION)
CLI_A      := $(BUILD)/libcli.a
DAEMON     := $(BUILD)/engram-acceld
CLI        := $(BUILD)/engram-accel

TEST_SRC   := $(shell find tests/unit tests/kernels tests/integration tests/torture tests/sim \
                tests/fuzz tests/cli tests/client -name 'test_*.c' 2>/dev/null | sort)
TEST_LIB   := $(wildcard tests/support/*.c)
CRITERION  := -lcriterion
SUPPORT_A  := $(BUILD)/libsupport.a
ifeq ($(SAN),thread) # which Criterion's own processes do not survive
CRITERION  :=
HARNESS    := $(call obj,tests/thread/criterion.c)
CPPFLAGS   += -Itests/thread -Wno-format-zero-length
endif
TEST_BIN   := $(patsubst %.c,$(BUILD)/%,$(TEST_SRC))
UNIT_BIN   := $(filter $(BUILD)/tests/unit/%,$(TEST_BIN))
# make check links one program a folder.
CHECK_BIN  := $(patsubst tests/unit/%/,$(BUILD)/tests/check/test_%,$(sort \
              $(dir $(filter tests/unit/%,$(TEST_SRC)))))
TEST_SH    := $(shell find tests -name 'run_*.sh' 2>/dev/null | sort)
FUZZ_SRC   := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN   := $(patsubst %.c,$(BUILD)/%,$(FUZZ_SRC))
REPLAY_BIN := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/tests/fuzz/replay_%,$(FUZZ_SRC))
SIM_BIN    := $(BUILD)/tests/sim/story_seeds
BENCH_SRC  := $(wildcard tests/bench/bench_*.c)
BENCH_BIN  := $(patsubst %.c,$(BUILD)/%,$(BENCH_SRC))
GPU_BIN    := $(if $(CUDA_SRC),$(patsubst %.c,$(BUILD)/%,$(wildcard tests/gpu/gpu_*.c)))
MAN        := $(patsubst docs/%,$(BUILD)/man/%,$(wildcard docs/*.[1-8]))
UNITS      := $(patsubst systemd/%.in,$(BUILD)/systemd/%,$(wildcard systemd/*.in)) \
              $(BUILD)/systemd/engram-acceld@.service
CU_FILES   := $(wildcard kernels/cuda/*.cu kernels/cuda/*.cuh)
C_FILES    := $(shell find daemon kernels client proto tests docs -name '*.[ch]' 2>/dev/null | sort)

.PHONY: all sim help clean deps test run-tests check unit-tests demo bench lint format install \
        install-files uninstall run-check soak thread parsers run-parsers fuzz run-fuzz coverage \
        run-coverage cuda gpu-bundle sample run-bench tests benches FORCE
.SECONDARY:

## all: build the daemon, the command line tool and the client library (the default)
all: $(DAEMON) $(GPU) $(CLI) $(CLIENT_A) $(CLIENT_SO) $(BUILD)/engram-accel.pc $(MAN) $(UNITS)

## help: list the targets
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  \1\t\2/p' Makefile tests/rules.mk \
	    systemd/packages.mk | expand -t 16

## deps: install every Debian package that any target needs
deps:
	@.ci/install-deps build test demo bench lint fuzz coverage

# ---------------------------------------------------------------- compile
say = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2))

# Other flags or paths are another build: these files change with them, and what they shape hangs
# on them.
stamp = @mkdir -p $(@D); echo '$(subst ','\'',$(1))' > $@.now; \
    cmp -s $@.now $@ && rm $@.now || mv $@.now $@
$(BUILD)/flags: FORCE
	$(call stamp,$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS))
$(BUILD)/nvcc: FORCE
	$(call stamp,$(NVCC) $(NVCC_FLAGS) $(NVCC_QUICK) $(NVCC_ARCH) $(NVCC_WGMMA))
# With and without CUDA they differ, and none of them need be newer than what was built of the
# others.
$(BUILD)/gpu-sources: FORCE
	$(call stamp,$(GPU_SRC))
$(BUILD)/paths: FORCE
	$(call stamp,$(PREFIX) $(LIBDIR) $(SYSCONFDIR) $(VERSION))

$(BUILD)/%.o: %.c $(BUILD)/flags | $(PROTO_GEN).h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SWITCH_FLAGS) $(TEST_FLAGS) $(KERNEL_FLAGS) $(ISA_FLAGS) \
	    $(PARSER_FLAGS) -MMD -MP -c $< -o $@

# The status page's files stand in it.
$(BUILD)/daemon/http/page_files.o: $(wildcard daemon/http/page/*)

ifneq ($(filter parsers,$(COVERAGE)),)
$(call obj,$(PARSER_SRC)): PARSER_FLAGS := $(COV_FLAGS)
endif
# Counters that all workers share make kernels ten times slower; a lost count costs no line.
ifneq ($(SAN)$(COVERAGE),)
$(BUILD)/kernels/%.o: KERNEL_FLAGS := -O2 $(if $(filter 1,$(COVERAGE)),-fprofile-update=single)
endif
# Tests are run once, too. In tests/unit/ops literal references would be slow.
ifneq ($(SAN)$(COVERAGE),)
$(BUILD)/tests/unit/%.o: TEST_FLAGS := -O0
$(BUILD)/tests/unit/ops/%.o: TEST_FLAGS :=
endif
# CUDA's phases, seven shapes of them, unrolled: half of the time.
$(BUILD)/tests/kernels/test_hrr_phases.o: TEST_FLAGS := -O1
# A switch over one of our enumerations names every case; what a new one means must be said.
$(BUILD)/daemon/%.o $(BUILD)/kernels/%.o $(BUILD)/client/%.o: SWITCH_FLAGS := \
    -Wswitch-enum -Werror=switch-enum -Werror=switch
# A root that also sets errno is a call, which no loop around it can be vectorised with.
# Fuzzers run little of these, but compile all; in their hundreds of unrolled loads the address
# sanitizer's checks take clang a quarter of the time where they are calls.
ifneq ($(FUZZ),)
$(BUILD)/kernels/%.o: KERNEL_FLAGS := -mllvm -asan-instrumentation-with-call-threshold=0
endif
FAST       := $(if $(FUZZ),,-O3) -fno-math-errno
%_avx2.o:   ISA_FLAGS := -mavx2 -mfma $(FAST)
%_avx512.o: ISA_FLAGS := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma $(FAST)
%_neon.o:   ISA_FLAGS := $(FAST)
%_vnni_avx512.o: ISA_FLAGS += -mavx512vnni
%_vnni_avx2.o: ISA_FLAGS += -mavxvnni
%_dot_neon.o: ISA_FLAGS += -march=armv8.2-a+dotprod
$(BUILD)/daemon/gpu/numbers.o: ISA_FLAGS := $(if $(FUZZ),,-O3)

$(PROTO_GEN).c $(PROTO_GEN).h &: proto/engram_accel.proto proto/engram_accel.options
	@mkdir -p $(BUILD)/gen
	@.ci/install-deps --check build
	$(call say,NANOPB,$<)
	$(Q)protoc --plugin=protoc-gen-nanopb=/usr/bin/protoc-gen-nanopb -I. \
	    --nanopb_out=$(BUILD)/gen $<

$(PROTO_O): $(PROTO_GEN).c $(PROTO_GEN).h $(BUILD)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(KERNEL_A): $(call obj,$(KERNEL_SRC))
$(DAEMON_A): $(call obj,$(DAEMON_SRC))
$(GPU_A):    $(call obj,$(GPU_SRC)) $(BUILD)/gpu-sources
$(CLI_A):    $(call obj,$(filter-out client/cli/main.c,$(CLI_SRC)))
$(CLIENT_A): $(call obj,$(CLIENT_SRC)) $(PROTO_O)
$(SUPPORT_A): $(call obj,$(TEST_LIB))
$(KERNEL_A) $(DAEMON_A) $(GPU_A) $(CLI_A) $(CLIENT_A) $(SUPPORT_A):
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/%.cu.o: %.cu $(BUILD)/nvcc $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh kernels/*.h)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) $(or $(if $(filter %_wgmma.cu,$<),$(NVCC_WGMMA)),$(NVCC_QUICK) \
	    $(NVCC_ARCH)) -c $< -o $@

$(CUDA_A): $(patsubst %,$(BUILD)/%.o,$(CUDA_SRC))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(DAEMON): $(BUILD)/daemon/main.o $(DAEMON_A) $(KERNEL_A) $(PROTO_O)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(DAEMON_LIB)

# CUDA's runtime is linked statically and looks for the driver when it runs.
CUDA_INCLUDE := $(if $(NVCC),-isystem$(dir $(realpath $(NVCC)))../include)
# (In a rule % stands for something: device_cuda%.o would leave device_cuda.o out.)
$(BUILD)/daemon/gpu/device_cuda.o: ISA_FLAGS := $(CUDA_INCLUDE)
$(BUILD)/daemon/gpu/device_cuda_%.o: ISA_FLAGS := $(CUDA_INCLUDE)
$(call obj,$(wildcard daemon/gpu/device_cuda*.c tests/gpu/gpu_*.c)): $(BUILD)/nvcc
$(GPU): $(BUILD)/daemon/gpu/main.o $(GPU_A) $(DAEMON_A) $(CUDA_A) $(KERNEL_A)
	$(call say,LD,$@)
	$(Q)$(if $(NVCC),$(NVCC) -cudart static -Wno-deprecated-gpu-targets \
	    $(addprefix -Xcompiler=,$(SAN_FLAGS) $(COV_FLAGS)) \
	    -Xcompiler=-pthread,$(CC) $(LDFLAGS)) -o $@ $^ -lm

$(CLI): $(BUILD)/client/cli/main.o $(CLI_A) $(CLIENT_A)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(CLI_LIB)

$(CLIENT_SO): $(call obj,$(CLIENT_SRC)) $(PROTO_O)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libengram_accel.so.$(SOVERSION) -Wl,-z,defs \
	    -Wl,--exclude-libs,ALL -o $@ $^ $(CLIENT_LIB)
	$(Q)ln -sf $(@F) $(BUILD)/libengram_accel.so.$(SOVERSION)
	$(Q)ln -sf libengram_accel.so.$(SOVERSION) $(BUILD)/libengram_accel.so

$(BUILD)/engram-accel.pc: client/engram-accel.pc.in $(BUILD)/paths
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' $< > $@

# ---------------------------------------------------------------- tests and benches
include tests/rules.mk

# What a demo builds kernels for, unless told: what there are kernels for already, else the cards of
# this machine, else the two of .ci/run, of those that nvcc knows. All of them take ten minutes.
DEMO_ARCH = $(if $(ALL_ARCH),$(sort $(or $(shell grep -os 'code=sm_[0-9]*' $(BUILD)/nvcc | \
              sed 's/.*_//'),$(filter $(CUDA_ARCH),$(shell nvidia-smi \
              --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d .)),$(filter \
              $(CUDA_ARCH),75 90),$(CUDA_ARCH))))

## demo: on real data, from nothing: install, build, load WordNet, ask, show
demo:
	@.ci/install-deps build demo
	$(if $(DEMO_ARCH),@echo "demo: kernels for compute capability $(DEMO_ARCH) (CUDA_ARCH)")
	+$(Q)tests/demo/ticking $(MAKE_AGAIN) all $(if $(DEMO_ARCH),CUDA_ARCH="$(DEMO_ARCH)")
	$(Q)tests/demo/demo $(BUILD)

## lint: format, clang-tidy, lengths, and who may include whom
lint:
	@.ci/install-deps build lint
	$(Q)clang-format --dry-run -Werror $(C_FILES) $(CU_FILES)
	$(Q)! LC_ALL=C.UTF-8 grep -nE '^.{101,}' $(C_FILES) $(CU_FILES) Makefile \
	    tests/rules.mk systemd/packages.mk $(wildcard proto/*.*o* proto/*.def)
	$(Q)tests/house/run_arrows.sh
	$(Q)tests/house/run_inside.sh
	$(Q)tests/house/run_lengths.sh
	$(SUBMAKE) $(PROTO_GEN).h
	$(Q)CUDA_INCLUDE=$(CUDA_INCLUDE) .ci/tidy $(BUILD) $(JOBS) $(filter-out %_neon.c \
	    $(if $(NVCC),,daemon/gpu/device_cuda%.c),$(filter daemon/%.c kernels/%.c client/%.c,\
	    $(C_FILES)))

## format: lay the sources out as .clang-format says
format:
	@.ci/install-deps lint
	$(Q)clang-format -i $(C_FILES) $(CU_FILES)

## sample: print the defaults into config/engram-accel.json
sample: $(DAEMON)
	$(Q)$(DAEMON) --print-config > config/engram-accel.json

# ---------------------------------------------------------------- pages, units, installation
# Where a page has .\" SETTINGS the daemon tells its own, where it has .\" TABLES the tool does.
$(BUILD)/man/%.8: docs/%.8 $(DAEMON) $(BUILD)/paths
	@mkdir -p $(@D)
	$(call say,MAN,$<)
	$(Q)$(DAEMON) --print-man > $@.settings
	$(Q)sed -e '/^\.\\" SETTINGS$$/{r $@.settings' -e 'd}' -e 's|@VERSION@|$(VERSION)|' $< > $@
$(BUILD)/man/%.1: docs/%.1 $(CLI) $(BUILD)/paths
	@mkdir -p $(@D)
	$(call say,MAN,$<)
	$(Q)$(CLI) --print-man > $@.tables
	$(Q)sed -e '/^\.\\" TABLES$$/{r $@.tables' -e 'd}' -e 's|@VERSION@|$(VERSION)|' $< > $@
$(BUILD)/systemd/%: systemd/%.in $(BUILD)/paths
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' $< > $@
# An instance has a file, a socket and folders of its own; all else is as in the one service.
INSTANCE := engram-accel-%i
$(BUILD)/systemd/engram-acceld@.service: $(BUILD)/systemd/engram-acceld.service
	$(Q)sed -e 's|^Description=.*|& (%i)|' \
	    -e 's|/engram-accel.json$$|/%i.json --socket /run/$(INSTANCE)/engram-accel.sock|' \
	    -e 's|^\(ExecReload=.*\) reload|\1 --socket /run/$(INSTANCE)/engram-accel.sock reload|' \
	    -e 's#^\(Runtime\|State\)Directory=.*#\1Directory=$(INSTANCE)#' $< > $@

## install: to PREFIX (/usr/local), under DESTDIR; settings to SYSCONFDIR (/etc)
# LIBDIR and DOCDIR lie in PREFIX unless told.
TO         := $(DESTDIR)$(PREFIX)
TO_LIB     := $(DESTDIR)$(LIBDIR)
EXAMPLES   := $(DESTDIR)$(DOCDIR)/examples
SETTINGS   := $(DESTDIR)$(SYSCONFDIR)/engram-accel
COMPLETIONS := share/bash-completion/completions/engram-accel \
              share/zsh/site-functions/_engram-accel \
              share/fish/vendor_completions.d/engram-accel.fish
HEADERS    := $(wildcard client/engram_accel*.h)
INSTALLED  := bin/engram-acceld bin/engram-accel-gpu bin/engram-accel \
              $(HEADERS:client/%=include/%) \
              lib/systemd/system/engram-acceld.service lib/systemd/system/engram-acceld.socket \
              lib/systemd/system/engram-acceld@.service \
              lib/sysusers.d/engram-accel.conf lib/tmpfiles.d/engram-accel.conf \
              $(COMPLETIONS) \
              $(foreach page,$(notdir $(MAN)),share/man/man$(subst .,,$(suffix $(page)))/$(page))
INSTALLED_LIB := libengram_accel.a libengram_accel.so libengram_accel.so.$(SOVERSION) \
              libengram_accel.so.$(VERSION) pkgconfig/engram-accel.pc
EXAMPLE_FILES := $(wildcard config/prometheus/*.rules.yml config/grafana/*.json \
              config/kubernetes/*.yaml) \
              systemd/restart-steps.conf
install: all install-files
install-files: $(if $(filter install,$(MAKECMDGOALS)),all)
	install -D -m 755 $(DAEMON) $(TO)/bin/engram-acceld
	install -D -m 755 $(GPU) $(TO)/bin/engram-accel-gpu
	install -D -m 755 $(CLI) $(TO)/bin/engram-accel
	install -D -m 644 -t $(TO)/include $(HEADERS)
	install -D -m 644 $(CLIENT_A) $(TO_LIB)/libengram_accel.a
	install -D -m 755 $(CLIENT_SO) $(TO_LIB)/libengram_accel.so.$(VERSION)
	ln -sf libengram_accel.so.$(VERSION) $(TO_LIB)/libengram_accel.so.$(SOVERSION)
	ln -sf libengram_accel.so.$(SOVERSION) $(TO_LIB)/libengram_accel.so
	install -D -m 644 $(BUILD)/engram-accel.pc $(TO_LIB)/pkgconfig/engram-accel.pc
	install -d $(TO)/lib/systemd/system $(TO)/lib/sysusers.d $(TO)/lib/tmpfiles.d
	install -m 644 $(filter %.service %.socket,$(UNITS)) $(TO)/lib/systemd/system
	install -m 644 systemd/sysusers.conf $(TO)/lib/sysusers.d/engram-accel.conf
	install -m 644 systemd/tmpfiles.conf $(TO)/lib/tmpfiles.d/engram-accel.conf
	for page in $(MAN); do install -D -m 644 $$page \
	    $(TO)/share/man/man$${page##*.}/$${page##*/} || exit 1; done
	install -d $(addprefix $(TO)/,$(dir $(COMPLETIONS)))
	for shell in bash/1 zsh/2 fish/3; do $(CLI) completion $${shell%/*} > \
	    $(TO)/$$(echo $(COMPLETIONS) | cut -d ' ' -f $${shell#*/}) || exit 1; done
	for file in $(EXAMPLE_FILES); do install -D -m 644 $$file $(EXAMPLES)/$${file#*/} || exit 1; done
	install -D -m 644 config/engram-accel.json $(SETTINGS)/engram-accel.json.sample
	[ -e $(SETTINGS)/engram-accel.json ] || \
	    install -m 644 config/engram-accel.json $(SETTINGS)/engram-accel.json

## uninstall: stop and disable the service, remove what install put there; the settings stay
uninstall:
	$(if $(DESTDIR),,-[ ! -d /run/systemd/system ] || systemctl disable --now \
	    engram-acceld.service engram-acceld.socket 2>/dev/null)
	rm -f $(addprefix $(TO)/,$(INSTALLED)) $(addprefix $(TO_LIB)/,$(INSTALLED_LIB)) \
	    $(SETTINGS)/engram-accel.json.sample
	for file in $(EXAMPLE_FILES); do rm -f $(EXAMPLES)/$${file#*/}; done

include systemd/packages.mk

## cuda: build the CUDA kernels' library, where nvcc is (CUDA_ARCH="90": for one architecture)
cuda: $(CUDA_A)

## gpu-bundle: what a GPU machine without our build tools needs to run tests and benches
gpu-bundle:
	@.ci/install-deps build test
	$(SUBMAKE) tests benches $(GPU_BIN)
	$(Q)tests/gpu/bundle $(BUILD) gpu-bundle $(BENCH_BIN) $(GPU_BIN) \
	    $(filter-out %_faults %_faults_late %_faults_onward %_programs %_walk,$(filter \
	    $(BUILD)/tests/integration/test_gpu_% $(BUILD)/tests/integration/test_graph% \
	    $(BUILD)/tests/integration/test_spread% $(BUILD)/tests/integration/test_requests% \
	    $(BUILD)/tests/kernels/%,$(TEST_BIN)))

## clean: remove everything that was built
clean:
	rm -rf build gpu-bundle

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
