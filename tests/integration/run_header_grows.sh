#!/bin/sh
# run_header_grows.sh: a program that was compiled with today's header runs with a library whose
# structs are larger: the client is built from a copy in which every public struct that a call takes
# or fills has 64 more bytes at its end. The program's structs lie before canaries.
set -eu
: "${BUILD:?the build directory}"
CC=${CC:-gcc}
case $BUILD in */release | release) ;; *) echo "SKIP the release build alone"; exit 77 ;; esac
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT

mkdir "$work/client"
cp -r client/*.[ch] client/calls client/replies "$work/client"
cp -r proto "$work/proto"
# Structs inside reports are frozen; ea_sizes tells its own size.
frozen='gpu_info|operation_stats|gpu_sensors|gpu_stats|route_stats|backend_use|space_stats|scheduler_stats|pressure|peer_stats|backend_cost|crossover|operation_cost|decision|row_bytes|sizes'
count=0
for header in "$work"/client/engram_accel*.h; do
    sed -E -i "/^} ea_($frozen);/b
        /^} ea_[a-z_]+;/{
            h; s/.*/    unsigned char grown[64];/; p; g
        }" "$header"
    # An enumeration takes no member.
    awk '/^typedef enum/ { inside = 1 } inside && /grown\[64\]/ { next }
         /^}/ { inside = 0 } { print }' "$header" >"$header.new"
    mv "$header.new" "$header"
    count=$((count + $(grep -c 'grown\[64\]' "$header" || true)))
done
[ "$count" -ge 20 ] || { echo "run_header_grows: only $count structs grew"; exit 1; }

# Another version of one soname.
soname=$(readlink "$BUILD/libengram_accel.so")
version=$("$BUILD/engram-accel" --version | sed -n 's/.*(library \([0-9.]*\)).*/\1/p')
"$CC" -std=gnu11 -O1 -g -fPIC -shared -pthread -fvisibility=hidden -D_GNU_SOURCE \
    -DENGRAM_VERSION="\"$version.99\"" -I"$work" -I"$BUILD/gen" \
    -Wl,-soname,"$soname" -o "$work/$soname" \
    "$work"/client/*.c "$work"/client/calls/*.c "$work"/client/replies/*.c \
    "$BUILD/gen/proto/engram_accel.pb.c" -lprotobuf-nanopb -lm
"$CC" -std=c11 -O1 -g -Wall -Wextra -Werror -I. -o "$work/old" tests/integration/header_grows.c \
    -L"$BUILD" -lengram_accel

socket=$work/socket
"$BUILD/engram-acceld" --socket "$socket" --set memory.max_mib=256 2>"$work/log" &
daemon=$!
tries=0
until "$BUILD/engram-accel" --socket "$socket" ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { cat "$work/log"; exit 1; }
    sleep 0.1
done
LD_LIBRARY_PATH=$BUILD "$work/old" "$socket" "$version"
LD_LIBRARY_PATH=$work "$work/old" "$socket" "$version.99"
