#!/bin/sh
# run_libraries.sh: what the executables need when they start: CUDA nowhere, not even in the GPU
# process, which looks for the driver when it runs; and nothing that is missing.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build/release}
cuda='lib(cuda|cudart|cublas|cufft|nv)[A-Za-z-]*\.so'

# Prints what is wrong with the libraries of $1, as ldd lists them.
check() {
    grep 'not found' | sed "s/^[[:space:]]*/$1: missing: /"
}
check_cuda() {
    grep -E "$cuda" | sed "s/^[[:space:]]*/$1: needs CUDA to start: /"
}

# A look at a made-up list first: both are seen.
made_up='libcudart.so.12 => /x/libcudart.so.12 (0x1)
libcuda.so.1 => not found
libnvidia-ml.so.1 => /x (0x2)'
seen=$(printf '%s\n' "$made_up" | check x | wc -l)$(printf '%s\n' "$made_up" | check_cuda x | wc -l)
[ "$seen" = 13 ] || { echo "run_libraries: saw $seen of 1 missing and 3 of CUDA"; exit 1; }

found=$(for name in engram-acceld engram-accel engram-accel-gpu libengram_accel.so; do
    needs=$(ldd "$build/$name") || echo "$name: ldd fails"
    printf '%s\n' "$needs" | check "$name"
    printf '%s\n' "$needs" | check_cuda "$name"
done)
[ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
