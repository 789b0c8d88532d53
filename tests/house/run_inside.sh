#!/bin/sh
# run_inside.sh [ROOT]: who may include whom inside a folder of more than 20 files: inside.txt
# beside it says. Prints each wrong include as FILE:LINE, and each such folder without a line there;
# exit 1 then. Without ROOT, the repository, after each rule was broken once in a made-up tree.
set -eu
table=$(cd "$(dirname "$0")" && pwd)/inside.txt

# Lines of "FILE:LINE:#include ..." in, wrong ones out.
judge() {
    awk -v table="$table" '
        function as_regex(glob) {
            gsub(/\./, "\\.", glob)
            gsub(/\*\*/, "\001", glob)
            gsub(/\*/, "[^/]*", glob)
            gsub(/\001/, ".*", glob)
            return "^" glob "$"
        }
        BEGIN {
            while ((getline line < table) > 0) {
                if (line ~ /^#/ || split(line, part, ":") != 3) continue
                split(part[1], head, " ")
                count = split(part[2], globs, " ")
                may[head[1] " " head[2]] = " " head[2] " " part[3] " "
                for (i = 1; i <= count; i++) {
                    rules++
                    folder[rules] = head[1] "/"
                    group[rules] = head[2]
                    regex[rules] = as_regex(globs[i])
                    known[head[1]] = 1
                }
            }
        }
        # Of a file, its group by the lines of that folder; "": the top.
        function group_in(where, file,   r, rest) {
            rest = substr(file, length(where) + 1)
            for (r = 1; r <= rules; r++)
                if (folder[r] == where && rest ~ regex[r]) return group[r]
            return ""
        }
        {
            split($0, at, ":")
            file = at[1]
            target = $0
            sub(/^[^"]*"/, "", target)
            sub(/".*/, "", target)
            for (name in known) {
                where = name "/"
                if (index(file, where) != 1 || index(target, where) != 1) continue
                from = group_in(where, file)
                to = group_in(where, target)
                if (from == "" || from == to) continue
                if (to == "" || index(may[name " " from], " " to " ") == 0)
                    print file ":" at[2] ": " from " of " name " may not include " target \
                        (to == "" ? ", its top" : " (" to ")")
            }
        }'
}

check() {
    wrong=$(grep -rnE '^[[:space:]]*#[[:space:]]*include "' daemon kernels client \
        --include='*.[ch]' --include='*.cu' --include='*.cuh' 2>/dev/null | judge)
    large=$(find daemon kernels client -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null |
        sed 's#/[^/]*$##' | sort | uniq -c | while read -r count name; do
            [ "$count" -gt 20 ] || continue
            grep -qE "^$name |^${name%/*} [^:]*:[^:]* ${name##*/}/" "$table" && continue
            echo "$name has $count files and no line in inside.txt"
        done)
    [ -z "$wrong$large" ] && return 0
    printf '%s\n' "$wrong" "$large" | sed '/^$/d'
    return 1
}

# A rule that never fires guards nothing: a file of each group includes one of each other group of
# its folder, and one of the top. What the table does not allow of these must be seen.
try_rules() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    grep -vE '^(#|$)' "$table" | while IFS=: read -r head files may; do
        file=$(printf '%s\n' "$files" |
            sed 's/^ *//; s/ .*//; s/\*\*/any.h/; s/\*\.\*/any.h/; s/\.\*$/.h/; s/\*\.\([ch]\)/any.\1/; s/\*$/any.h/')
        echo "$head $file :$may"
    done >"$tree/groups"
    expected=$(awk -v tree="$tree" '
        { split($0, part, ":"); split(part[1], f, " "); name[NR] = f[1]; group[NR] = f[2]
          file[NR] = f[1] "/" f[3]; may[NR] = " " part[2] " " }
        END {
            for (i = 1; i <= NR; i++) {
                path = tree "/" file[i]; dir = path; sub(/\/[^\/]*$/, "", dir)
                system("mkdir -p " dir)
                print "#include \"" name[i] "/top/nobody.h\"" >path
                wrong++
                for (j = 1; j <= NR; j++) {
                    if (name[j] != name[i] || group[j] == group[i]) continue
                    print "#include \"" file[j] "\"" >path
                    if (index(may[i], " " group[j] " ") == 0) wrong++
                }
                close(path)
            }
            print wrong
        }' "$tree/groups")
    mkdir -p "$tree/daemon/large"
    for i in $(seq 21); do : >"$tree/daemon/large/$i.c"; done
    expected=$((expected + 1))
    found=$(cd "$tree" && check) && { echo "run_inside: the broken tree passed"; exit 1; }
    count=$(printf '%s\n' "$found" | wc -l)
    [ "$count" = "$expected" ] && return 0
    printf '%s\n' "$found"
    echo "run_inside: $count of $expected broken rules were seen"
    exit 1
}

if [ $# = 0 ]; then
    try_rules
    cd "$(dirname "$0")/../.."
else
    cd "$1"
fi
check
