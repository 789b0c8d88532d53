#!/bin/sh
# run_neon.sh: the NEON kernels under qemu against this machine's: same digests, line for line.
# From the repository's root. Exit 0: equal; 1: different or broken; 77: SKIP, with the reason.
set -eu

cross=${CROSS_CC:-aarch64-linux-gnu-gcc}
emulator=${QEMU:-qemu-aarch64}
command -v "$cross" >/dev/null || { echo "SKIP run_neon: no $cross"; exit 77; }
command -v "$emulator" >/dev/null || { echo "SKIP run_neon: no $emulator"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-std=gnu11 -O2 -D_GNU_SOURCE -I. -Wall -Wextra -ffp-contract=off -fno-fast-math
       -fno-math-errno"
common="tests/kernels/kernel_digest.c kernels/cpu/vectors_scalar.c kernels/cpu/vectors_choose.c
    kernels/cpu/functions_scalar.c kernels/cpu/functions_choose.c
    kernels/cpu/random_scalar.c kernels/cpu/random_choose.c
    kernels/cpu/attractor_scalar.c kernels/cpu/attractor_choose.c kernels/cpu/attractor_settle.c
    kernels/cpu/superpose_scalar.c kernels/cpu/superpose_choose.c
    kernels/cpu/complete_scalar.c kernels/cpu/complete_choose.c
    kernels/cpu/covariance_scalar.c kernels/cpu/covariance_choose.c
    kernels/cpu/cluster_scalar.c kernels/cpu/cluster_choose.c
    kernels/cpu/shadow_scalar.c kernels/cpu/shadow_choose.c
    kernels/cpu/hrr_scalar.c kernels/cpu/hrr_choose.c kernels/cpu/hrr_plan.c
    kernels/cpu/transform_plan.c"

# From the library of the build, where there is one that links by itself.
build_native() {
    # shellcheck disable=SC2086
    ${CC:-gcc} $flags -o "$work/native" tests/kernels/kernel_digest.c \
        "${BUILD:-build/release}/libkernels.a" -lm 2>"$work/why" && return
    objects=
    for source in $common kernels/cpu/*_avx2.c kernels/cpu/*_avx512.c; do
        isa=
        case $source in
        *_vnni_avx512.c) isa="-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -O3" ;;
        *_vnni_avx2.c) isa="-mavx2 -mavxvnni -mfma -O3" ;;
        *_avx2.c) isa="-mavx2 -mfma -O3" ;;
        *_avx512.c) isa="-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -O3" ;;
        esac
        object=$work/$(basename "$source" .c).o
        # shellcheck disable=SC2086
        ${CC:-gcc} $flags $isa -c "$source" -o "$object"
        objects="$objects $object"
    done
    # shellcheck disable=SC2086
    ${CC:-gcc} -o "$work/native" $objects -lm
}

case $(uname -m) in
x86_64) build_native ;;
*) echo "SKIP run_neon: native digests are built for x86-64 only"; exit 77 ;;
esac
for source in kernels/cpu/*_neon.c; do
    isa=
    case $source in *_dot_neon.c) isa="-march=armv8.2-a+dotprod" ;; esac
    # shellcheck disable=SC2086
    "$cross" $flags -O3 $isa -c "$source" -o "$work/$(basename "$source" .c).neon.o"
done
# shellcheck disable=SC2086
"$cross" $flags -O3 -static -o "$work/neon" $common "$work"/*.neon.o -lm

"$work/native" >"$work/native.txt"
"$emulator" "$work/neon" >"$work/neon.txt"
grep -q '^neon ' "$work/neon.txt" || { echo "run_neon: no neon digests"; exit 1; }
# Without the variant's name, every line must be one that the other machine printed.
for side in native neon; do
    cut -d' ' -f2- "$work/$side.txt" | sort -u >"$work/$side.sorted"
done
if ! diff "$work/native.sorted" "$work/neon.sorted"; then
    echo "run_neon: digests differ"
    exit 1
fi
echo "run_neon: $(wc -l <"$work/neon.sorted") digests equal on $(uname -m) and aarch64"
