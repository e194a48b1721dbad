#!/usr/bin/env bash
# Runs the Windows build under Wine and holds it against the build for this system: bash tools/wine/run.sh
# [PACKAGE...], from anywhere in a clone. It needs Go, and Debian's wine64, wine and gcc-mingw-w64-x86-64.
# The packages are those whose tests run there; see below for the default and what is left out.
set -euo pipefail
exec </dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
repo=$PWD

work=$(mktemp -d)
# Wine's own server outlives its programs for a while, and is asked to end.
trap 'WINEPREFIX=$work/prefix wineserver -k 2>/dev/null || true; rm -rf "$work"' EXIT
export WINEPREFIX=$work/prefix WINEDEBUG=-all WINEARCH=win64 WINEDLLOVERRIDES='mscoree,mshtml='

# Left out, and why:
#   host                 minutes of fits, some of which need the time of a whole machine
#   host/benchmark       it times passes of microseconds, which Wine's clock does not resolve
#   internal/atomicfile  permissions, symbolic links and removals, which Wine does not have as Windows has
#   cmd/moe, host/catalog, internal/sandbox and others have tests of unix alone
default='sdk sdk/gauss solver solver/properties expression host/atleast host/checkpoint host/criterion host/crossvalidation host/dataset host/dataset/npz host/descent host/diverse host/figures host/fitted
	host/fitted/advice host/fitted/check host/fitted/compare host/fitted/jsonfile host/fitted/known host/fitted/progress host/fitted/stated
	host/gru host/infer host/infer/gain host/infer/leaveoneout host/infer/sandwich host/infer/specification host/loss host/loss/constraint host/loss/gram host/loss/minibatch host/loss/shrinkage host/metric host/mixture host/mixture/joint host/model host/moment
	host/network host/network/networkfile host/optim host/predict host/problem host/recheck host/report host/report/diagnosis host/report/numeral
	host/report/page host/report/verdict host/result/warn host/sample host/search host/search/climb host/search/hardgate host/search/narrower host/search/rare
	host/search/splitmerge host/search/starts host/search/survey host/search/tree host/shard host/shard/newton host/spec host/sweep host/tensor host/terms internal/claims internal/conform internal/kernel
	internal/memory internal/numeric internal/pluginproc internal/spotcheck internal/stream internal/strictjson internal/wasm
	plugins/exp plugins/leakyrelu plugins/relu plugins/sigmoid plugins/tanh'
packages=${*:-$default}

say() { printf '%s\n' "$*"; }
fail() { say "FAIL: $*"; exit 1; }

# A new prefix takes some seconds. Go's runtime wants a library that Wine has from version 9 on.
timeout 300 wineboot -i >"$work/boot" 2>&1 || fail "Wine does not start: $(tail -1 "$work/boot")"
if [ ! -e "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" ]; then
	x86_64-w64-mingw32-gcc -shared -O2 -s -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" tools/wine/prng.c -ladvapi32
fi

mkdir "$work/linux" "$work/windows"
go build -o "$work/linux/moe" ./cmd/moe
GOOS=windows GOARCH=amd64 go build -ldflags=-s -o "$work/windows/moe.exe" ./cmd/moe
# Wine's programs see this system's files on its drive Z:.
linux() { (cd "$work/linux" && MOE_CONFIG_DIR=$work/config ./moe "$@"); }
windows() { (cd "$work/windows" && timeout 300 wine ./moe.exe "$@"); }

# both runs a command on both and compares what it prints and the files that it leaves.
both() {
	local code=0 other=0
	linux "$@" >"$work/linux/out" 2>"$work/linux/err" || code=$?
	windows "$@" >"$work/windows/out" 2>"$work/windows/err" || other=$?
	[ "$code" = 0 ] || fail "moe $*: exit code $code here: $(tail -1 "$work/linux/err")"
	[ "$code" = "$other" ] || fail "moe $*: exit code $code here and $other there: $(tail -1 "$work/windows/err" | tr -d '\r')"
	diff -r -q -x 'moe' -x 'moe.exe' -x err "$work/linux" "$work/windows" || fail "moe $*: other bytes"
	say "the same bytes: moe $*"
}

cp examples/iris.csv examples/modules/swish.wasm "$work/linux"
cp examples/iris.csv examples/modules/swish.wasm "$work/windows"
say "$(wine --version 2>/dev/null), $(windows version | tr -d '\r')"
both data tone -o tone.csv
both fit tone.csv --k 2 -o model.json
both predict model.json tone.csv -o predictions.csv
both fit tone.csv --k 2 --activation 'expr: where(z < 0, expm1(z), z)' -o elu.json
both validate-activation 'expr: z*sigmoid(z)'
both plugin verify ./swish.wasm
both fit tone.csv --k 2 --activation ./swish.wasm -o swish.json
both predict swish.json tone.csv -o swish.csv

# A plugin: the same program built for both is trusted and gives the same fit. What is said of its file differs.
# Its faults are in the tests of internal/pluginproc.
go build -o "$work/linux/plugin.exe" ./examples/plugins/moe-plugin-smoothrelu
GOOS=windows GOARCH=amd64 go build -ldflags=-s -o "$work/windows/plugin.exe" ./examples/plugins/moe-plugin-smoothrelu
for where in linux windows; do
	$where plugin trust ./plugin.exe >/dev/null
	code=0
	$where fit tone.csv --k 2 --activation ./plugin.exe -o plugin.json >"$work/$where/out" 2>"$work/$where/err" || code=$?
	# 1 is a verdict: these data hardly ask for a second expert.
	[ "$code" -le 1 ] || fail "a fit with a plugin, $where: exit code $code: $(tail -1 "$work/$where/err")"
done
same() { sed -E 's/"sha256": *"[0-9a-f]{64}"//' "$work/$1/plugin.json"; }
[ "$(same linux)" = "$(same windows)" ] || fail "a fit with a plugin: other bytes"
say "the same bytes but for its checksum: a fit with a plugin"
code=0
windows validate-activation ./plugin.exe --sandbox strict >"$work/windows/out" 2>&1 || code=$?
[ "$code" = 69 ] || fail "--sandbox strict: exit code $code, want 69"
say "refused: $(tr -d '\r' <"$work/windows/out" | cut -c1-120)"

# Tests, in their own directories. Wine 8 cannot remove a file as Go asks for it ("Invalid function"): a test that
# fails in nothing but the removal of its temporary directory has passed.
failed=0 removals=0 passed=0
mkdir "$work/tests"
GOOS=windows GOARCH=amd64 go test -c -ldflags=-s -o "$work/tests/" $(printf './%s ' $packages)
run() {
	code=0
	(cd "$repo/$1" && timeout 600 wine "$2" -test.short >"$work/log" 2>&1) || code=$?
}
for package in $packages; do
	binary=$work/tests/${package##*/}.test.exe
	run "$package" "$binary"
	if [ "$code" != 0 ] && grep -q '^wine client error' "$work/log"; then # Wine's own server has gone: once more
		run "$package" "$binary"
	fi
	rm -f "$binary"
	if [ "$code" = 0 ]; then
		passed=$((passed + 1))
		continue
	fi
	rest=$(grep -vE '^ *--- FAIL: |TempDir RemoveAll cleanup: .*Invalid function|^(FAIL|PASS)\s*$' "$work/log" || true)
	if [ "$code" != 1 ] || [ -n "$rest" ] || ! grep -q 'TempDir RemoveAll cleanup' "$work/log"; then
		say "FAIL: $package, exit code $code"
		tail -30 "$work/log"
		failed=$((failed + 1))
	else
		removals=$((removals + $(grep -c 'TempDir RemoveAll cleanup' "$work/log")))
		passed=$((passed + 1))
	fi
done
say "$passed packages pass; Wine did not remove $removals temporary directories"
[ "$failed" = 0 ]
