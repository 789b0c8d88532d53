#!/bin/sh
# run_demo_arch.sh: what `make demo` would build kernels for, told by a made-up nvcc and nvidia-smi:
# the cards that are there, what was asked for, what there is already; `make` alone, for all.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/built"
printf '#!/bin/sh\nfor n in 75 80 90 100; do echo compute_$n; done\n' >"$dir/bin/nvcc"
printf '#!/bin/sh\necho %s\n' '$CARDS | tr " " "\\n"' >"$dir/bin/nvidia-smi"
chmod +x "$dir/bin/nvcc" "$dir/bin/nvidia-smi"
echo "nvcc -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_80,code=compute_80" \
    >"$dir/built/nvcc"

# expect WANTED CARDS [VARIABLE=VALUE ...]
expect() {
    wanted=$1
    cards=$2
    shift 2
    got=$(env -u CUDA_ARCH -u MAKEFLAGS CARDS="$cards" PATH="$dir/bin:$PATH" make -s --eval \
        'show-arch: ; @echo $(DEMO_ARCH)' BUILD="$dir/none" "$@" show-arch)
    [ "$got" = "$wanted" ] || {
        echo "with cards '$cards' and '$*': '$got', wanted '$wanted'"
        exit 1
    }
}

expect "90" "9.0"
expect "80 90" "9.0 8.0 9.0"
expect "75 90" ""
expect "75 90" "12.1" # that nvcc does not know
expect "" "9.0" CUDA_ARCH=80
expect "" "9.0" CUDA=0
expect "80" "9.0" BUILD="$dir/built"
all=$(env -u CUDA_ARCH -u MAKEFLAGS CARDS="9.0" PATH="$dir/bin:$PATH" make -s --eval \
    'show-all: ; @echo $(CUDA_ARCH)' BUILD="$dir/none" show-all)
[ "$all" = "100 75 80 90" ] || {
    echo "make alone: '$all'"
    exit 1
}
echo "demo builds for the cards that are there"
