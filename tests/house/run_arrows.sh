#!/bin/sh
# run_arrows.sh [ROOT]: who may include whom, folder by folder (docs/architecture.md).
# Prints each wrong include as FILE:LINE; exit 1 when there is one. Without ROOT, the repository,
# after a look at a made-up tree in which every rule is broken once.
set -eu

# Into may: folders that a folder may include, beside itself. engine = daemon/*.c but main.c.
# (Of thousands of lines, each with a process or two of its own, most of the time would go there.)
allowed() {
    below="base heap store kernels"
    middle="$below net wire sched exec"
    case $1 in
    base) may="" ;;
    heap) may="base" ;;
    store) may="base heap kernels" ;;
    net | wire | sched | exec | persist | handover) may="$below" ;;
    ops | cards) may="$below exec" ;;
    report | learn) may="$middle ops cards" ;;
    http) may="base report" ;;
    request) may="$middle ops cards report learn persist" ;;
    engine | main) may="$middle ops cards report learn persist handover request http engine" ;;
    gpu) may="base heap kernels" ;;
    client) may="" ;; # it stands alone: a copy of it builds elsewhere
    *) may="" ;;
    esac
}

# job.h is read by every folder and says where a request's bytes lie.
exceptions="daemon/base/job.h:daemon/heap/heap.h daemon/base/job.h:daemon/heap/order.h"

# Into room: the folder that a file counts to.
room_of() {
    case $1 in
    daemon/main.c) room=main ;;
    daemon/*/*) room=${1#daemon/} room=${room%%/*} ;;
    daemon/*) room=engine ;;
    kernels/*) room=kernels ;;
    client/*) room=client ;;
    *) room=other ;;
    esac
}

check() {
    wrong=0
    list=$(mktemp)
    grep -rnE '^[[:space:]]*#[[:space:]]*include' daemon kernels client --include='*.[ch]' \
        --include='*.cu' --include='*.cuh' 2>/dev/null |
        sed -E 's/^([^:]*):([0-9]*):[^"<]*["<]([^">]*)[">].*/\1 \2 \3/' >"$list" || true
    while read -r file number target; do
        case $target in
        cuda* | cu*.h | nvml.h | nvrtc* | cub/* | thrust/*)
            case $file in
            daemon/gpu/* | kernels/cuda/*) ;;
            *) echo "$file:$number: $target: only daemon/gpu and kernels/cuda may include CUDA"
               wrong=1 ;;
            esac
            continue ;;
        daemon/* | kernels/* | client/*) ;;
        *) continue ;;
        esac
        room_of "$file"
        from=$room
        room_of "$target"
        to=$room
        [ "$from" != "$to" ] || continue
        case " $exceptions " in *" $file:$target "*) continue ;; esac
        allowed "$from"
        case " $may " in
        *" $to "*) ;;
        *) echo "$file:$number: $from may not include $target ($to)"; wrong=1 ;;
        esac
    done <"$list"
    rm -f "$list"
    circles || wrong=1
    return $wrong
}

# Inside a folder no two files (a .c and its .h count as one) may include each other, directly or
# around corners. X_inside.h is what the files of a folder share and may build on X.h.
circles() {
    round=0
    pairs=$(mktemp)
    for folder in $(find daemon kernels client -type d 2>/dev/null); do
        grep -sE '^[[:space:]]*#[[:space:]]*include "' "$folder"/*.[ch] "$folder"/*.cu \
            "$folder"/*.cuh | sed -E 's/:[^"]*"([^"]*)".*/ \1/' |
            awk -v folder="$folder/" '
                index($2, folder) == 1 {
                    from = substr($1, length(folder) + 1); sub(/\.[a-z]+$/, "", from)
                    to = substr($2, length(folder) + 1); sub(/\.[a-z]+$/, "", to)
                    if (to !~ /\// && from != to && from != to "_inside") print to, from
                }' >"$pairs"
        found=$(tsort "$pairs" 2>&1 >/dev/null) && continue
        echo "$folder: files include each other in a circle:" \
            $(printf '%s\n' "$found" | sed -n 's/^tsort: \([a-z_0-9]*\)$/\1/p')
        round=1
    done
    rm -f "$pairs"
    return $round
}

# A rule that never fires guards nothing.
try_rules() {
    house=$(mktemp -d)
    trap 'rm -rf "$house"' EXIT
    mkdir -p "$house/daemon/net" "$house/daemon/base" "$house/daemon/wire" "$house/kernels/cpu" \
        "$house/client"
    echo '#include "daemon/wire/decode.h"' >"$house/daemon/net/sibling.c"
    echo '#include "daemon/base/job.h"' >"$house/kernels/cpu/upwards.c"
    echo '# include <cuda_runtime.h>' >"$house/daemon/wire/cuda.c"
    echo '#include "daemon/request/pipeline.h"' >"$house/daemon/base/story.h"
    echo '#include "daemon/store/space.h"' >"$house/client/inside.c"
    echo '#include "daemon/base/status.h"' >"$house/daemon/wire/fine.c"
    echo '#include "daemon/net/chicken.h"' >"$house/daemon/net/egg.h"
    echo '#include "daemon/net/egg.h"' >"$house/daemon/net/chicken.c"
    found=$(cd "$house" && check) && { echo "run_arrows: the broken house passed"; exit 1; }
    count=$(printf '%s\n' "$found" | wc -l)
    if [ "$count" != 6 ]; then
        printf '%s\n' "$found"
        echo "run_arrows: $count of 6 broken rules were seen"
        exit 1
    fi
}

if [ $# = 0 ]; then
    try_rules
    cd "$(dirname "$0")/../.."
else
    cd "$1"
fi
check
