#!/bin/sh
# Mutated requests to a daemon under valgrind, a few of each operation; many:
#     /usr/bin/python3 -B tests/integration/hostile_valgrind.py build/release 2000
# test-run: timeout=900
build=${BUILD:-build/release}
if ! command -v valgrind >/dev/null; then
    echo "SKIP no valgrind on this machine"
    exit 77
fi
if grep -q -e __asan_init -e __tsan_init -e __ubsan "$build/engram-acceld"; then
    echo "SKIP a build with a sanitizer does not run under valgrind"
    exit 77
fi
exec /usr/bin/python3 -B tests/integration/hostile_valgrind.py "$build" 122
