#!/usr/bin/env bash
# Compares what two builds of moe make of the same data, byte for byte:
#
#	tools/compare/compare.sh [FLAG…] OLD NEW
#
#	--cache DIR     keep the data and OLD's outputs in DIR: OLD runs what is not there yet
#	--only REGEXP   cases whose name matches
#	--reproduce     also moe reproduce --quick, some two minutes each
#	--listed FILE   apply this sed script to both outputs first, for changes that are meant
#	--tolerance T   of numbers in weighted fits, relative, absolute below 1 (default 1e-12)
#	--speed         time whole fits instead: ten runs of each in turn, median ratios NEW/OLD
#
# A case is "same" or "DIFFERENT", with the first line that differs. The exit code
# is 1 if any is. OLD draws the data. Needs Go, for the plugins, which both builds share.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
export LC_ALL=C

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 64; }

cache='' only='' listed='' tolerance=1e-12 reproduce=0 speed=0
while [ $# -gt 0 ]; do
	case $1 in
	--cache) cache=${2:?}; shift ;;
	--only) only=${2:?}; shift ;;
	--listed) listed=$(realpath "${2:?}"); shift ;;
	--tolerance) tolerance=${2:?}; shift ;;
	--reproduce) reproduce=1 ;;
	--speed) speed=1 ;;
	-*) usage ;;
	*) break ;;
	esac
	shift
done
[ $# = 2 ] || usage
old=$(realpath "$1") new=$(realpath "$2")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "${cache:=$work/cache}"
cache=$(realpath "$cache")
sum=$(sha256sum <"$old")
if [ "$(cat "$cache/of" 2>/dev/null || echo "$sum")" != "$sum" ]; then
	echo "$cache is of another OLD: remove it or name another" >&2
	exit 64
fi
echo "$sum" >"$cache/of"

# data draws the data sets. What it makes is drawn again when its text changes.
data() {
	local truth=(--truth identity.json)
	draw identity.csv identity 2 10 3000 "${truth[@]}"
	draw identity.npy identity 2 10 3000
	draw identity.parquet identity 2 10 3000
	draw three.csv identity 3 8 4000 --sigma 0.2 --design orthogonal-gating --truth three.json
	draw rows.csv identity 2 5 20000 --sigma 0.5 --design orthogonal-gating
	draw wide.csv identity 2 120 2500 --sigma 0.3
	draw relu.csv relu 2 10 4000 --truth relu.json
	draw relu4.csv relu 4 10 4000 --sigma 0.1 --seed 3
	draw leaky.csv leakyrelu 2 8 3000 --param slope=0.1 --seed 2
	draw sigmoid.csv sigmoid 2 6 4000
	draw mixture.csv relu 2 8 3000 --inputs symmetric-mixture:p=0.3
	draw l4.npy identity 2 5 20000 --truth l4.json
	cp "$root/examples/tone.csv" .
	cp "$root/examples/relu.csv" example.csv
	cp "$root/examples/relu-truth.json" example.json
	# Features with scales and means of their own; the target in the middle, beside
	# columns that are no features.
	awk -F, -v OFS=, 'NR > 1 { for (j = 1; j < NF; j++) $j = sprintf("%.17g", 10^(j % 5 - 2) * $j + j - 3) } { print }' three.csv >scaled.csv
	awk -F, -v OFS=, '{ print (NR > 1 ? "r" NR : "id"), $1, $2, $3, $NF, $4, $5, $6, $7, $8, (NR > 1 ? NR % 7 : "site") }' three.csv >named.csv
	# Weights that are counts, and weights that are not.
	awk -F, -v OFS=, '{ print (NR > 1 ? NR % 4 : "w"), (NR > 1 ? 0.25 + NR % 5 / 3 : "v"), $0 }' three.csv >weights.csv
	awk -F, -v OFS=, '{ print (NR > 1 ? 0.5 + NR % 3 : "w"), $0 }' tone.csv >tone-weights.csv
	awk -F, -v OFS=, 'NR == 700 { $3 = "n/a" } { print }' identity.csv >bad.csv
	"$old" fit three.csv --activation identity --k 3 --seed 9 -o start.json --quiet >/dev/null
	(cd "$root" && go build -buildvcs=false -o "$cache/data" ./examples/plugins/moe-plugin-smoothrelu ./plugins/leakyrelu/moe-plugin-leakyrelu)
	store "$old" "$cache/store"
	MOE_CONFIG_DIR=$cache/store draw smoothrelu.csv ./moe-plugin-smoothrelu 2 6 3000
}

# draw FILE ACTIVATION K D N FLAG…
draw() { "$old" sample -o "$1" --activation "$2" --k "$3" --d "$4" --n "$5" --quiet "${@:6}" >/dev/null; }

# store MOE DIR makes a store that trusts the plugins.
store() {
	for p in smoothrelu leakyrelu; do
		MOE_CONFIG_DIR=$2 "$1" plugin trust "$cache/data/moe-plugin-$p" --quiet >/dev/null
	done
}

# The makers below make a case's files in the current directory, by $moe.

# say FILE ARG… runs moe: what it prints goes to FILE and FILE.err, its exit code
# after that.
say() {
	local to=$1 code=0
	shift
	"$moe" "$@" >"$to" 2>"$to.err" || code=$?
	echo "exit code $code" >>"$to.err"
}

# fit DATA ACTIVATION K FLAG… fits, reports, predicts and evaluates.
fit() {
	local data=data/$1 flags=(--activation "$2" --k "$3" "${@:4}") weights=() i
	for ((i = 4; i <= $#; i++)); do
		if [ "${!i}" = --weights ]; then weights=("${@:i:2}"); fi
	done
	say fit.txt fit "$data" "${flags[@]}" -o model.json --report report.html
	[ -e model.json ] || return 0
	say predict.txt predict model.json "$data" --experts --interval 0.9 -o predictions.csv
	say evaluate.json evaluate model.json "$data" "${weights[@]}" --json
	say evaluate.txt evaluate model.json "$data" "${weights[@]}"
}

# resume DATA ACTIVATION K FLAG… interrupts a fit where it has something to keep, and
# finishes it, to the same model. Checkpoints of another format are refused, so that
# each build goes on from its own.
resume() {
	local flags=("data/$1" --activation "$2" --k "$3" "${@:4}") TIMEFORMAT=%R took after
	took=$( { time "$moe" fit "${flags[@]}" -o whole.json --quiet >/dev/null 2>&1 || true; } 2>&1)
	for after in 0.6 0.7 0.5 0.8 0.4 0.9 0.3 0.95; do
		after=$(awk -v f=$after -v t="$took" 'BEGIN { print f * t }')
		timeout -s INT "$after" env --default-signal=INT "$moe" fit "${flags[@]}" -o model.json --quiet >/dev/null 2>&1 || true
		if [ -e model.json.checkpoint ]; then break; fi
		rm -f model.json
	done
	say resume.txt fit "${flags[@]}" -o model.json --resume --report report.html
	cmp whole.json model.json
}

# files ARG… runs moe for the files that it writes.
files() { say stdout.txt "$@"; }

# reproduced makes all figures, in their short form.
reproduced() {
	say stdout.txt reproduce --quick --quiet -o out
	rm -rf out/.runs
}

# check NAME MAKER ARG… has OLD and NEW make a case, and compares.
check() {
	local name=$1
	shift
	[[ $name =~ $only ]] || return 0
	local how="$* $(declare -f "$1")"
	if [ "$(cat "$cache/old/$name.case" 2>/dev/null)" != "$how" ]; then
		make "$old" "$cache/store" "$cache/old/$name" "$@"
		if [ -e "$cache/old/$name/failed.txt" ]; then
			echo "$name: OLD fails:" >&2
			cat "$cache/old/$name/failed.txt" >&2
			exit 1
		fi
		echo "$how" >"$cache/old/$name.case"
	fi
	make "$new" "$work/store" "$work/new/$name" "$@"
	if compare "$cache/old/$name" "$work/new/$name" >"$work/why"; then
		passed=$((passed + 1))
		echo "$name: same"
	else
		failed=$((failed + 1))
		echo "$name: DIFFERENT"
		sed 's/^/    /' "$work/why"
	fi
	rm -rf "${work:?}/new/$name"
}

# make MOE STORE DIR MAKER ARG… A maker that fails leaves a file that says so.
make() {
	local moe=$1 dir=$3
	export MOE_CONFIG_DIR=$2
	rm -rf "$dir"
	mkdir -p "$dir"
	ln -s "$cache/data" "$dir/data"
	(cd "$dir" && "${@:4}" >failed.txt 2>&1 && rm failed.txt) || true
}

# compare OLDDIR NEWDIR says which file differs first, and in which line.
compare() {
	local file a=$work/a b=$work/b
	if ! diff <(cd "$1" && find . -type f | sort) <(cd "$2" && find . -type f | sort) >"$work/diff"; then
		sed -n 's/^</only OLD has/p; s/^>/only NEW has/p' "$work/diff"
		cat "$2/failed.txt" 2>/dev/null || true
		return 1
	fi
	while read -r file; do
		case $file in
		*.npy | *.parquet | *.png)
			cmp "$1/$file" "$2/$file" && continue
			echo "$file"
			return 1
			;;
		esac
		plain <"$1/$file" >"$a"
		plain <"$2/$file" >"$b"
		if ! first "$a" "$b" >"$work/line"; then
			echo "$file:$(cut -c 1-300 "$work/line")"
			return 1
		fi
	done < <(cd "$1" && find . -type f | sort)
}

# plain leaves out what no two runs share, and what is listed.
plain() {
	sed -E '/^  "seconds": /d; s/(moe: wrote .*) after [0-9.]+ s$/\1/' | if [ "$listed" ]; then sed -f "$listed"; else cat; fi
}

# first A B says where two texts differ first. Those of weighted fits differ where a
# number does by more than the tolerance, or the text between the numbers.
first() {
	if cmp -s "$1" "$2"; then return 0; fi
	awk -v other="$2" -v near="$([[ $name == weights-* ]] && echo "$tolerance" || echo 0)" '
		function size(x) { return x < 0 ? -x : x }
		function number(s) { return match(s, /-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?/) }
		function differ(s, t,    x, y, scale) {
			while (number(s)) {
				x = substr(s, RSTART, RLENGTH); before = substr(s, 1, RSTART - 1); s = substr(s, RSTART + RLENGTH)
				if (!number(t) || substr(t, 1, RSTART - 1) != before) return 1
				y = substr(t, RSTART, RLENGTH); t = substr(t, RSTART + RLENGTH)
				scale = 1
				if (size(x) > scale) scale = size(x)
				if (size(y) > scale) scale = size(y)
				if (size(x - y) > near * scale) return 1
			}
			return s != t
		}
		function found(s, t) { printf "%d\nOLD %s\nNEW %s\n", NR, s, t; bad = 1; exit 1 }
		{
			if ((getline line < other) <= 0) found($0, "(nothing)")
			if (near ? differ($0, line) : $0 "" != line "") found($0, line)
		}
		END { if (!bad && (getline line < other) > 0) { NR++; found("(nothing)", line) } exit bad }' "$1"
}

cases() {
	local a
	# Data and activations.
	for a in csv npy parquet; do
		check sample-$a files sample --activation relu --k 2 --d 8 --n 1000 --seed 4 --truth truth.json -o out.$a
	done
	check sample-random files sample --activation leakyrelu --param slope=0.2 --k 3 --d 8 --n 1000 --design random --inputs symmetric-mixture:p=0.2 --truth truth.json -o out.csv
	for a in identity relu leakyrelu sigmoid; do
		check validate-$a files validate-activation $a --json
	done

	# Method auto.
	check auto-identity fit identity.csv identity 2 --truth data/identity.json
	check auto-npy fit identity.npy identity 2 --truth data/identity.json
	check auto-parquet fit identity.parquet identity 2 --truth data/identity.json
	check auto-json fit identity.csv identity 2 --json
	check auto-seed fit identity.csv identity 2 --seed 7 --threads 1
	check auto-k1 fit identity.csv identity 1
	check auto-three fit three.csv identity 3 --truth data/three.json
	check auto-too-many fit three.csv identity 5 --starts 8
	check auto-rows fit rows.csv identity 2
	check auto-wide fit wide.csv identity 2 --starts 4
	check auto-relu fit relu.csv relu 2 --truth data/relu.json
	check auto-relu4 fit relu4.csv relu 4
	check auto-wrong fit relu.csv identity 2 --strict
	check auto-leaky fit leaky.csv leakyrelu 2 --param slope=0.1
	check auto-sigmoid fit sigmoid.csv sigmoid 2
	check auto-mixture fit mixture.csv relu 2
	check auto-scaled fit scaled.csv identity 3
	check auto-scaled-relu fit scaled.csv relu 2 --intercept --starts 8
	check auto-sigma fit three.csv identity 3 --sigma 0.3
	check auto-mu fit three.csv identity 3 --mu 0.3
	check auto-starts fit three.csv identity 3 --starts 2
	check auto-robust fit three.csv identity 3 --robust
	check auto-per-expert fit three.csv identity 3 --noise per-expert
	check auto-per-expert-robust fit relu.csv relu 2 --noise per-expert --robust
	check auto-intercept fit three.csv identity 3 --intercept
	check auto-everything fit scaled.csv identity 3 --intercept --noise per-expert --robust
	check auto-constant fit three.csv identity 3 --gate constant
	check auto-constant-intercept fit leaky.csv leakyrelu 2 --param slope=0.1 --gate constant --intercept --noise per-expert
	check auto-gate-features fit identity.csv identity 2 --gate-features x3,x4
	check auto-two-sets fit three.csv identity 2 --features x1,x2,x3,x4 --gate-features x5,x6 --intercept
	check auto-own fit three.csv identity 3 --start data/three.json
	check auto-own-model fit three.csv identity 3 --start data/start.json --intercept
	check auto-columns fit named.csv identity 3 --target y --drop id,site
	check auto-features fit named.csv identity 2 --target y --features x1,x2,x3
	check auto-range fit three.csv identity 1:4
	check auto-range-json fit identity.csv identity 1:3 --json --truth data/identity.json
	check auto-range-constant fit three.csv identity 2:3 --gate constant --noise per-expert
	check tone fit tone.csv identity 2 --intercept --noise per-expert
	check tone-three fit tone.csv identity 3 --intercept --noise per-expert --robust
	check tone-constant fit tone.csv identity 2 --intercept --gate constant
	check tone-range fit tone.csv identity 1:4 --intercept
	check example-relu fit example.csv relu 2 --truth data/example.json

	# Method moments.
	check moments fit identity.csv identity 2 --method moments --truth data/identity.json
	check moments-npy fit identity.npy identity 2 --method moments
	check moments-relu fit relu.csv relu 2 --method moments --truth data/relu.json
	check moments-sigmoid fit sigmoid.csv sigmoid 2 --method moments
	check moments-leaky fit leaky.csv leakyrelu 2 --param slope=0.1 --method moments --json
	check moments-three fit three.csv identity 3 --method moments --sigma 0.3 --mu 0.5
	check moments-radius fit relu.csv relu 2 --method moments --radius 0.5 --robust
	check moments-scaled fit scaled.csv identity 3 --method moments
	check moments-range fit three.csv identity 1:3 --method moments

	# Method em.
	check em fit identity.csv identity 2 --method em --truth data/identity.json
	check em-sigma fit three.csv identity 3 --method em --sigma 0.3
	check em-relu fit relu4.csv relu 4 --method em --starts 3 --seed 2
	check em-intercept fit three.csv identity 3 --method em --intercept --noise per-expert
	check em-constant fit scaled.csv identity 2 --method em --gate constant --robust
	check em-gate-features fit identity.csv identity 2 --method em --gate-features x1
	check em-own fit three.csv identity 3 --method em --starts 2 --start data/start.json
	check em-range fit tone.csv identity 1:3 --method em --intercept

	# Methods l2 and l4.
	check l2 fit identity.csv identity 2 --method l2 --truth data/identity.json
	check l2-adam fit sigmoid.csv sigmoid 2 --method l2 --optimiser adam --epochs 20
	check l2-options fit relu.csv relu 2 --method l2 --epochs 10 --batch 64 --step-size 0.1 --schedule inverse --starts 3
	check l2-own fit three.csv identity 3 --method l2 --epochs 10 --start data/start.json --sigma 0.3
	check l2-scaled fit scaled.csv identity 2 --method l2 --epochs 10 --schedule constant --json
	check l4 fit l4.npy identity 2 --method l4 --truth data/l4.json
	check l4-relu fit relu.csv relu 2 --method l4
	check l4-options fit three.csv identity 3 --method l4 --epochs 100 --batch 512 --lambda 20 --radius 5 --mu 0.02 --schedule inverse
	check l4-diverged fit identity.csv identity 2 --method l4 --ridge 0 --step-size 0.3 --epochs 50
	check l4-scaled fit scaled.csv identity 2 --method l4 --epochs 100 --sigma 0.4 --json

	# Weighted fits, compared as numbers.
	check weights-auto fit weights.csv identity 3 --drop v --weights w
	check weights-fractions fit weights.csv identity 3 --drop w --weights v --robust
	check weights-everything fit weights.csv identity 2 --drop v --weights w --intercept --noise per-expert
	check weights-constant fit weights.csv identity 3 --drop w --weights v --gate constant
	check weights-moments fit weights.csv identity 3 --drop v --weights w --method moments
	check weights-em fit weights.csv identity 3 --drop v --weights w --method em --sigma 0.3
	check weights-tone fit tone-weights.csv identity 1:3 --weights w --intercept --noise per-expert

	# Plugins, and fits that were interrupted.
	check plugin fit smoothrelu.csv data/moe-plugin-smoothrelu 2
	check plugin-exact fit smoothrelu.csv data/moe-plugin-smoothrelu 2 --exact-activation
	check plugin-slope fit leaky.csv data/moe-plugin-leakyrelu 2 --param slope=0.1
	check plugin-slope-exact fit leaky.csv data/moe-plugin-leakyrelu 2 --param slope=0.1 --exact-activation --intercept
	check plugin-moments fit smoothrelu.csv data/moe-plugin-smoothrelu 2 --method moments
	check plugin-l2 fit smoothrelu.csv data/moe-plugin-smoothrelu 2 --method l2 --epochs 5
	check plugin-validate files validate-activation data/moe-plugin-smoothrelu --json
	check resume resume relu4.csv relu 5 --starts 8 --threads 1
	check resume-range resume three.csv identity 2:5 --threads 1

	# What is refused.
	check refused-value fit bad.csv identity 2
	check refused-k fit identity.csv identity 6 --method moments
	check refused-use fit three.csv identity 3 --method moments --start data/start.json
	check refused-shape fit identity.csv identity 2 --method l4 --intercept
	check refused-slope fit leaky.csv leakyrelu 2 --param slope=3

	if [ $reproduce = 1 ]; then check reproduce reproduced; fi
}

# timed NAME DATA ACTIVATION K FLAG… times a fit by both, in turn.
timed() {
	local name=$1 i side
	local flags=("$cache/data/$2" --activation "$3" --k "$4" "${@:5}")
	shift
	[[ $name =~ $only ]] || return 0
	local TIMEFORMAT='%R %U %S'
	for i in {1..10}; do
		for side in "$old" "$new"; do
			{ time "$side" fit "${flags[@]}" --quiet >/dev/null 2>&1 || true; } 2>&1
		done | paste - -
	done >"$work/times"
	awk '{ print $4 / $1, ($5 + $6) / ($2 + $3), $1, $2 + $3 }' "$work/times" >"$work/ratios"
	printf '%-16s wall %.3f  CPU %.3f  (OLD %.2f s, %.2f s)\n' "$name" "$(median 1)" "$(median 2)" "$(median 3)" "$(median 4)"
}

# median COLUMN of the ratios.
median() { awk -v c="$1" '{ print $c }' "$work/ratios" | sort -g | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }

if [ "$(cat "$cache/data.made" 2>/dev/null)" != "$(declare -f data)" ]; then
	rm -rf "$cache/data" "$cache/old" "$cache/store"
	mkdir -p "$cache/data" "$cache/old"
	(cd "$cache/data" && data)
	declare -f data >"$cache/data.made"
fi
if [ $speed = 1 ]; then
	echo "NEW over OLD, median of ten:"
	timed relu4 relu4.csv relu 4 --starts 16
	timed everything rows.csv identity 3 --intercept --noise per-expert --robust
	timed rows rows.csv identity 3
	timed range three.csv identity 1:5
	timed l2 identity.csv identity 2 --method l2
	exit
fi
store "$new" "$work/store"
passed=0 failed=0
cases
echo "$passed passed, $failed failed"
[ $failed = 0 ]
