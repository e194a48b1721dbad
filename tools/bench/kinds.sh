#!/usr/bin/env bash
# Compares whole fits of other kinds than compare.sh's with one start of a program that is made for them, in turn and
# on one thread:
#
#	tools/bench/kinds.sh MOE [ROUNDS [CASE…]]
#
# MOE is the command; a case is KIND,N,D,K. Kinds: poisson, binomial (of 10 trials), targets (two under one gate) beside
# flexmix (kinds.R), network (sigmoids) beside scikit-learn (kinds.py), and tree (K is 4), which has no peer. A line for each has the
# medians over the rounds (default 3) of the CPU seconds, user and system: of the whole fit, reading, certificate and
# standard errors included, and of the peer's one start without reading; then their ratio, the peer's iterations, and
# both log-likelihoods, of networks both root mean squares of the residuals. R needs flexmix; PYTHON names a Python with
# scikit-learn. On Linux.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
moe=$(realpath "${1:?usage: kinds.sh MOE [ROUNDS [CASE…]]}")
rounds=${2:-3}
shift $(($# < 2 ? $# : 2))
if [ $# = 0 ]; then
	for kind in poisson,%d,5,3 binomial,%d,5,2 targets,%d,5,3 tree,%d,5,4 network,%d,10,3; do
		for n in 2500 10000 40000; do set -- "$@" "${kind/\%d/$n}"; done
	done
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GOMAXPROCS=1 OPENBLAS_NUM_THREADS=1 LC_ALL=C
. "$here/lib.sh"

printf '%9s %6s %3s %2s  %8s %8s %7s %10s  %s\n' kind n d k moe peer ratio iterations values
for case in "$@"; do
	IFS=, read -r kind n d k <<<"$case"
	draw=(sample --design separated --k "$k") fit=(fit --threads 1) peer=(Rscript "$here/kinds.R" "$kind" "$dir/data.csv" "$k")
	case $kind in
	poisson) draw+=(--family poisson) fit+=(--k "$k" --family poisson) ;;
	binomial) draw+=(--family binomial --trials 10) fit+=(--k "$k" --family binomial --trials trials) ;;
	targets) draw+=(--activation identity --targets 2) fit+=(--k "$k" --targets y1,y2 --gate-shared --noise per-expert) ;;
	tree) draw=(sample --design separated --hierarchy 2x2 --activation identity) fit+=(--hierarchy 2x2) peer=() ;;
	network)
		draw=(network sample --activation sigmoid --sigma 0.1 --k "$k") fit=(network fit --threads 1 --k "$k" --activation sigmoid)
		peer=("${PYTHON:-python3}" "$here/kinds.py" "$dir/data.csv" "$k")
		;;
	*) echo "no kind $kind" >&2; exit 64 ;;
	esac
	"$moe" "${draw[@]}" --d "$d" --n "$n" --seed 1 --quiet -o "$dir/data.csv" >"$dir/out"
	: >"$dir/ours"
	: >"$dir/theirs"
	for _ in $(seq "$rounds"); do
		fitted "${fit[@]}" "$dir/data.csv"
		[ ${#peer[@]} = 0 ] || "${peer[@]}" >>"$dir/theirs"
	done
	ours=$(median <"$dir/ours")
	said=$(value "$([ "$kind" = network ] && echo sigma || echo log_likelihood)")
	if [ ${#peer[@]} = 0 ]; then
		printf '%9s %6d %3d %2d  %8.3f %8s %7s %10s  %.5f\n' "$kind" "$n" "$d" "$k" "$ours" - - - "$said"
		continue
	fi
	theirs=$(cut -d' ' -f1 "$dir/theirs" | median)
	read -r _ iterations reached <<<"$(tail -1 "$dir/theirs")"
	printf '%9s %6d %3d %2d  %8.3f %8.3f %7.3f %10d  %.5f %s\n' "$kind" "$n" "$d" "$k" "$ours" "$theirs" \
		"$(awk "BEGIN {print $ours / $theirs}")" "$iterations" "$said" "$reached"
done
