#!/usr/bin/env bash
# Compares whole fits with one start of an EM in numpy (numpy_em.py beside this file), in
# turn and on one thread:
#
#	tools/bench/compare.sh MOE [ROUNDS [CASE…]]
#
# MOE is the command; a case is N,D,K, by default those of docs/studies/performance.md. A line for
# each has the medians over the rounds (default 3) of the CPU seconds, user and system: of
# the whole `moe fit` from an NPY file, certificate and standard errors included, and of the
# EM alone in its process, without reading; then their ratio, the EM's iterations, and both
# log-likelihoods. PYTHON names a Python with numpy. On Linux.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
moe=$(realpath "${1:?usage: compare.sh MOE [ROUNDS [CASE…]]}")
rounds=${2:-3}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- 10000,10,3 1000000,10,3 1000000,20,4 20000,30,10 20000,100,5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GOMAXPROCS=1 LC_ALL=C
. "$here/lib.sh"

printf '%8s %4s %3s  %8s %8s %7s %11s  %s\n' n d k moe numpy ratio iterations 'log-likelihoods'
for case in "$@"; do
	IFS=, read -r n d k <<<"$case"
	"$moe" sample --activation identity --k "$k" --d "$d" --n "$n" --sigma 0.05 --seed 1 --quiet -o "$dir/data.npy" 2>/dev/null
	: >"$dir/ours"
	: >"$dir/theirs"
	for _ in $(seq "$rounds"); do
		fitted fit "$dir/data.npy" --activation identity --k "$k" --threads 1
		"${PYTHON:-python3}" "$here/numpy_em.py" "$dir/data.npy" "$k" >>"$dir/theirs"
	done
	ours=$(median <"$dir/ours")
	theirs=$(cut -d' ' -f1 "$dir/theirs" | median)
	read -r _ iterations loglik <<<"$(tail -1 "$dir/theirs")"
	printf '%8d %4d %3d  %8.3f %8.3f %7.4f %11d  %.2f %.2f\n' "$n" "$d" "$k" "$ours" "$theirs" \
		"$(awk "BEGIN {print $ours / $theirs}")" "$iterations" "$(value log_likelihood)" "$loglik"
done
