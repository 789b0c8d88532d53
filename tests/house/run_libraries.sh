#!/bin/sh
# run_libraries.sh: what the executables need when they start: CUDA nowhere but in the GPU process,
# and there only what the build brings along: it must start on machines without a driver.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build/release}
wrong=0
for name in engram-acceld engram-accel engram-accel-gpu "$(basename "$build"/libengram_accel.so.*.*.*)"; do
    needs=$(ldd "$build/$name") || { echo "$name: ldd fails"; wrong=1; continue; }
    missing=$(printf '%s\n' "$needs" | grep 'not found' || true)
    [ -z "$missing" ] || { printf '%s: is missing\n%s\n' "$name" "$missing"; wrong=1; }
    cuda=$(printf '%s\n' "$needs" | grep -E 'lib(cuda|cudart|nv[a-z]*|cublas|cufft)[A-Za-z]*[.-]' || true)
    [ -z "$cuda" ] || { printf '%s: needs CUDA to start\n%s\n' "$name" "$cuda"; wrong=1; }
done
exit $wrong
