#!/bin/sh
# run_lengths.sh [ROOT]: no file of code has more than 500 lines: sources, tests, scripts, the
# Makefile and what it includes. The schema, one file by its nature, is not looked at. Prints each
# longer file; exit 1 then. Without ROOT, the repository, after a look at a made-up tree.
set -eu
lines_max=500

check() {
    long=$(find Makefile .ci daemon kernels client tests proto/*.def -path tests/fuzz/corpus -prune \
        -o -type f \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \
        -o -name '*.def' -o -name '*.mk' -o -name '*.py' -o -name '*.sh' -o -name '*.*js' \
        -o -name '*.css' -o -name '*.html' -o ! -name '*.*' \) \
        -exec awk -v max="$lines_max" 'FNR == max + 1 { print FILENAME }' {} + | sort)
    [ -n "$long" ] || return 0
    printf '%s\n' "$long" | sed "s/\$/: more than $lines_max lines/"
    return 1
}

try_rule() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    mkdir -p "$tree/.ci" "$tree/daemon" "$tree/kernels/cuda" "$tree/client" "$tree/proto" \
        "$tree/tests/fuzz/corpus/a" "$tree/tests/unit"
    seq 500 | tee "$tree/daemon/fine.c" >"$tree/proto/operations.def"
    seq 501 | tee "$tree/Makefile" "$tree/.ci/run" "$tree/kernels/cuda/long.cuh" \
        "$tree/tests/unit/test_long.c" "$tree/tests/fuzz/corpus/a/b" >"$tree/client/long.md"
    found=$(cd "$tree" && check) && { echo "run_lengths: long files passed"; exit 1; }
    count=$(printf '%s\n' "$found" | wc -l)
    [ "$count" = 4 ] || { printf '%s\n' "$found"; echo "run_lengths: $count of 4 files"; exit 1; }
}

if [ $# = 0 ]; then
    try_rule
    cd "$(dirname "$0")/../.."
else
    cd "$1"
fi
check
