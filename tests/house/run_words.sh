#!/bin/sh
# run_words.sh [ROOT]: no comment or page cites DESIGN.md, which is not in the repository, or calls a
# folder, module or path a house, room or road. The name of the folder tests/house is allowed, and
# pages of figures (docs/performance*.md) are not looked at. Prints each place; exit 1 when there is
# one. Without ROOT, the repository, after a look at a made-up tree with five wrong places.
set -eu

# Comments of sources; pages are read whole. Each line is FILE:LINE: TEXT.
comments() {
    find daemon kernels client proto -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \
        -o -name '*.def' -o -name '*.proto' \) -exec awk '
        FNR == 1 { inside = 0 }
        {
            rest = $0
            text = ""
            while (rest != "") {
                if (inside) {
                    at = index(rest, "*/")
                    text = text " " (at ? substr(rest, 1, at - 1) : rest)
                    rest = at ? substr(rest, at + 2) : ""
                    inside = !at
                } else if (match(rest, /"([^"\\]|\\.)*"|\/\*|\/\//)) {
                    token = substr(rest, RSTART, RLENGTH)
                    rest = substr(rest, RSTART + RLENGTH)
                    if (token == "//") { text = text " " rest; rest = "" }
                    inside = token == "/*"
                } else
                    rest = ""
            }
            if (text != "") print FILENAME ":" FNR ":" text
        }' {} +
    find docs proto client daemon kernels -type f \( -name '*.md' -o -name '*.[18]' \) \
        ! -name 'performance*' -exec grep -nH '' {} + || true
}

check() {
    edge='[^A-Za-z0-9_/]'
    words='[Hh]ouses?|[Rr]oads?|[Rr]ooms|[Tt]his room'
    places=$(comments | grep -E "DESIGN\.md|$edge($words)($edge|\$)" | sort) || true
    [ -n "$places" ] || return 0
    printf '%s\n' "$places"
    return 1
}

try_rule() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    mkdir -p "$tree/daemon/net" "$tree/kernels" "$tree/client" "$tree/proto" "$tree/docs"
    cat >"$tree/daemon/net/wrong.c" <<'END'
/* The arithmetic of DESIGN.md. */
int a; /* the road back */
/* What holds in every
 * folder of this house */
END
    printf '// Between the rooms.\n' >"$tree/kernels/wrong.cu"
    printf '# One road\n' >"$tree/docs/wrong.md"
    cat >"$tree/client/fine.c" <<'END'
int roads; /* see tests/house/run_words.sh; room for more, in the room of a list */
const char *text = "no /* road */ here";
int broad; /* abroad */
END
    found=$(cd "$tree" && check) && { echo "run_words: wrong words passed"; exit 1; }
    count=$(printf '%s\n' "$found" | wc -l)
    [ "$count" = 5 ] || { printf '%s\n' "$found"; echo "run_words: $count of 5 places"; exit 1; }
}

if [ $# = 0 ]; then
    try_rule
    cd "$(dirname "$0")/../.."
else
    cd "$1"
fi
check
