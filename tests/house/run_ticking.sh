#!/bin/sh
# run_ticking.sh: what tests/demo/ticking runs is seen as it is, silence is filled, and its exit code
# comes through.
set -eu
out=$(mktemp)
trap 'rm -f "$out"' EXIT
fail() {
    echo "$1:"
    cat "$out"
    exit 1
}

code=0
tests/demo/ticking sh -c 'echo "  CC  a.c"; sleep 4; printf "b\nc"; exit 3' >"$out" || code=$?
[ $code = 3 ] || fail "exit code $code, wanted 3"
grep -q '^  \.\.\. 3 s since: CC a\.c$' "$out" || fail "silence was not filled"
[ "$(grep -v '^  \.\.\.' "$out")" = "$(printf '  CC  a.c\nb\nc')" ] || fail "other lines"
code=0
tests/demo/ticking sh -c 'kill -9 $$' >"$out" || code=$?
[ $code = 137 ] || fail "exit code $code, wanted 137"
tests/demo/ticking seq 1 100000 | head -1 >"$out"
[ "$(cat "$out")" = 1 ] || fail "a reader that goes"
echo "what is silent for long is told"
