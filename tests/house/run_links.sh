#!/bin/sh
# run_links.sh: every link between our own pages leads to a file.
set -eu
cd "$(dirname "$0")/../.."
wrong=0
for page in *.md docs/*.md proto/*.md; do
    [ -e "$page" ] || continue
    folder=$(dirname "$page")
    for target in $(grep -oE '\]\([^)#]+' "$page" | sed 's/^](//' | grep -v '^https\{0,1\}:'); do
        [ -e "$folder/$target" ] || { echo "$page: $target is not there"; wrong=1; }
    done
done
exit $wrong
