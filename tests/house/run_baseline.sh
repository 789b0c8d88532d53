#!/bin/sh
# run_baseline.sh: tests/bench/baseline tells what is worse past the margin, in both directions of
# better, and nothing else.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '== a\nscan of 1000 rows: 10.0 us\nrate: 100 GB/s\n== b\nscan of 1000 rows: 5 ms\n' >"$work/old"
tests/bench/baseline "$work/old" "$work/old" | grep -q '3 figures compared, 0 worse'
sed 's/10.0 us/12.0 us/; s/100 GB/90 GB/' "$work/old" >"$work/near"
tests/bench/baseline "$work/old" "$work/near" | grep -q '0 worse'
sed 's/10.0 us/13.0 us/; s/100 GB/70 GB/; s/5 ms/4 ms/' "$work/old" >"$work/far"
if tests/bench/baseline "$work/old" "$work/far" >"$work/said"; then
    echo "run_baseline: a loss passed"; exit 1
fi
grep -q '2 worse' "$work/said" && grep -q 'worse: a: rate' "$work/said"
if tests/bench/baseline "$work/old" /dev/null >/dev/null; then
    echo "run_baseline: nothing to compare passed"; exit 1
fi
