#!/bin/sh
# run_names.sh [ROOT]: a struct's, union's or enumeration's name is defined once in the repository.
# Prints each place of a name that is not; exit 1 then. Without ROOT, the repository, after a look
# at a made-up tree in which one name is defined twice.
set -eu

defined() {
    grep -rnE '^(static |const )*(struct|union|enum) [a-z_0-9]+( [A-Z_]+\([^)]*\))? *\{' daemon kernels client \
        --include='*.[ch]' --include='*.cu' --include='*.cuh' |
        sed -E 's/^([^:]*:[0-9]+):(static |const )*(struct|union|enum) ([a-z_0-9]+).*/\4 \1/' | sort
}

check() {
    twice=$(defined | cut -d' ' -f1 | uniq -d)
    [ -n "$twice" ] || return 0
    for name in $twice; do
        defined | sed -n "s/^$name \(.*\)/\1: $name is defined elsewhere, too/p"
    done
    return 1
}

try_rule() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    mkdir -p "$tree/daemon/net" "$tree/kernels" "$tree/client"
    echo 'struct piece {' | tee "$tree/daemon/net/one.c" "$tree/client/other.h" >/dev/null
    echo 'struct chunk {' >"$tree/kernels/one.h"
    found=$(cd "$tree" && check) && { echo "run_names: a name defined twice passed"; exit 1; }
    count=$(printf '%s\n' "$found" | wc -l)
    [ "$count" = 2 ] || { printf '%s\n' "$found"; echo "run_names: $count of 2 places"; exit 1; }
}

if [ $# = 0 ]; then
    try_rule
    cd "$(dirname "$0")/../.."
else
    cd "$1"
fi
check
