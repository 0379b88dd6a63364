#!/usr/bin/env bash
# All tests, in groups; the slowest ones and what was skipped at the end. `--long`: also those that are ignored as long, with the
# static binary of `make dist`. Everything is compiled before.
#
# Tests of `weir` run four at once, each in a network of its own, most of it waiting. Those in a module `alone` judge times or change
# the machine: they have it to themselves, as the other crates' tests in namespaces have.
set -uo pipefail
unset CDPATH WEIR WEIR_WRITE_DOCS
cd "$(dirname "$0")/../.." && mkdir -p target || exit 1
exec 9>target/test.lock
flock -n 9 || { echo "make test runs in this checkout already"; exit 1; }
cargo=${CARGO:-cargo}
long=()
if [ "${1:-}" = --long ]; then
    # What costs are measured is run in release.
    long=(--include-ignored --skip=tests::cost::)
    export WEIR=$PWD/dist/weir
fi
# An ordinary user's tests make their namespaces in a user namespace, as `weir` does; where there are none, they are skipped.
as_root=()
[ "$(id -u)" = 0 ] || ! unshare --map-root-user true 2>/dev/null || as_root=(unshare --map-root-user --)
log=$PWD/target/test.log failed=()
export WEIR_SKIPPED=$PWD/target/skipped
: >"$log"
: >"$WEIR_SKIPPED"

run() { # NAME, arguments of cargo test
    local from=$(($(wc -l <"$log") + 1))
    echo "== $1, load $(cut -d' ' -f1-3 /proc/loadavg)"
    "${as_root[@]}" "$cargo" test --locked --no-fail-fast "${@:2}" 2>&1 9>&- | tee -a "$log"
    [ "${PIPESTATUS[0]}" = 0 ] || failed+=("$1")
    count() { tail -n +"$from" "$log" | grep -cE "$1"; }
    [ "$(count '^running [1-9]')" != 0 ] || failed+=("$1: no test was run")
    # A test that exits takes those after it with it, and cargo calls that a success.
    [ "$(count '^running [0-9]+ test')" = "$(count '^test result')" ] || failed+=("$1: a test ended its program")
}
# Times are an unstable option of the stable test harness, permitted to the tests alone: nothing is compiled for it.
timed() { # NAME, which tests, --, arguments of the harness
    run "$1" --config "target.'cfg(all())'.runner=['env','RUSTC_BOOTSTRAP=1']" "${@:2}" \
        "${long[@]}" -Zunstable-options --report-time
}

others=()
for test in crates/*/tests/* rooms/*/tests/* weir/tests/*; do
    test=${test##*/}
    [ "$test" = weir ] || others+=(--test "${test%.rs}")
done
timed "libraries" --lib --bins -- --test-threads="$(nproc)"
timed "weir, beside one another" --test weir -- --test-threads=4 --skip=alone::
timed "other crates, in namespaces" "${others[@]}" -- --test-threads=1
timed "weir, alone" --test weir -- --test-threads=1 alone::
run "examples in documentation" --doc

echo "== the 30 slowest"
sed -nE 's/^test (.*) \.\.\. .*<([0-9.]+)s>$/\2 s  \1/p' "$log" | sort -rn | head -30
sed 's/\(.*\)\t\(.*\)/skipped: \2: \1/' "$WEIR_SKIPPED"
because=$(cut -f1 "$WEIR_SKIPPED" | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2 (\1)/' | paste -sd';' | sed 's/;/; /g')
echo "left to make test-long: $(grep -c '^test .* \.\.\. ignored' "$log")"
echo "skipped: $(wc -l <"$WEIR_SKIPPED")${because:+, because: $because}"
[ ${#failed[@]} = 0 ] || { sed -n '/^failures:$/,/^test result/p' "$log" | grep '^    [a-z]' | sort -u; printf 'failed: %s\n' "${failed[@]}"; exit 1; }
