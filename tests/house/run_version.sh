#!/bin/sh
# run_version.sh [ROOT]: the version stands in the Makefile and nowhere else. Every other place takes
# it from there; CHANGELOG.md begins with it, and a Cargo.toml, which must have one, has the same.
# Made-up inputs (tests/fuzz/corpus) and older entries of CHANGELOG.md are not looked at. Prints each
# wrong place; exit 1 when there is one. Without ROOT, the repository, after a look at a made-up tree
# with four wrong places.
set -eu

check() {
    version=$(sed -n 's/^VERSION *:= *//p' Makefile)
    case $version in
    *[!0-9.]* | '' | *.*.*.*) echo "Makefile: '$version' is no version"; return 1 ;;
    *.*.*) ;;
    *) echo "Makefile: '$version' is no version"; return 1 ;;
    esac
    dots=$(echo "$version" | sed 's/\./\\./g')
    minor=${dots%\\.*}
    number="(^|[^0-9.])$dots([^0-9.]|\$)|(^|[^0-9.])$dots\.([^0-9]|\$)|\.so\.$minor([^0-9]|\$)"
    wrong=0
    places=$(find . -type f ! -path './.git*' ! -path './build/*' ! -path './gpu-bundle/*' \
        ! -path './tests/fuzz/corpus/*' ! -path '*/target/*' ! -name '*.svg' ! -name Cargo.lock \
        ! -name Cargo.toml ! -path ./CHANGELOG.md -exec grep -InE "$number" {} + |
        grep -v '^\./Makefile:[0-9]*:VERSION *:=') || true
    [ -z "$places" ] || { printf '%s\n' "$places"; wrong=1; }
    first=$(sed -n '/^## /{s/^## \([0-9.]*\).*/\1/p;q;}' CHANGELOG.md)
    [ "$first" = "$version" ] ||
        { echo "CHANGELOG.md: begins with '$first', the Makefile has $version"; wrong=1; }
    for file in $(find . -name Cargo.toml ! -path './build/*' ! -path '*/target/*'); do
        has=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$file" | head -1)
        [ "$has" = "$version" ] ||
            { echo "$file: version is '$has', the Makefile has $version"; wrong=1; }
    done
    return $wrong
}

try_rule() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    mkdir -p "$tree/client/rust" "$tree/docs" "$tree/tests/fuzz/corpus"
    printf 'SOVERSION := 4.5\nVERSION    := 4.5.6\nOTHER := libx.so.4.5\n' >"$tree/Makefile"
    printf '# Changes\n\n## 4.5.5\n\n## 4.5.6\n' >"$tree/CHANGELOG.md"
    printf 'It is version 4.5.6.\n4.5.60, 14.5.6, 4.5.6.1 and libx.so.4.50 are others\n' \
        >"$tree/docs/a.md"
    printf '[package]\nversion = "4.5.4"\n[dependencies]\nx = "4.5.6"\n' \
        >"$tree/client/rust/Cargo.toml"
    echo 4.5.6 >"$tree/tests/fuzz/corpus/one"
    found=$(cd "$tree" && check) && { echo "run_version: wrong places passed"; exit 1; }
    count=$(printf '%s\n' "$found" | wc -l)
    [ "$count" = 4 ] || { printf '%s\n' "$found"; echo "run_version: $count of 4 places"; exit 1; }
    for bad in 4.5 4.5.6.7 4.x.6; do
        echo "VERSION := $bad" >"$tree/Makefile"
        (cd "$tree" && check) >/dev/null && { echo "run_version: $bad passed"; exit 1; }
    done
    return 0
}

if [ $# = 0 ]; then
    try_rule
    cd "$(dirname "$0")/../.."
else
    cd "$1"
fi
check
