#!/usr/bin/env bash
# Fits a table with many seeds, and says what of the best of all each reaches:
#
#   bash tools/compare/seeds.sh MOE "FLAGS OF moe fit" DATA SEED...
#
# as in
#
#   bash tools/compare/seeds.sh moe "--target wage --activation identity --k 2 --intercept" cps1988.csv $(seq 20)
#
# It prints a line for every seed, log-likelihood, verdict on the optimum and seconds of CPU, and one that sums up. It exits with 1
# where a fit passes more than .5 below the best of all.
set -euo pipefail
moe=$1 flags=$2 data=$3
shift 3
TIMEFORMAT='%U'
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for seed in "$@"; do
	# shellcheck disable=SC2086 # flags are several words
	{ time "$moe" fit "$data" $flags --seed "$seed" --quiet >"$out/text" 2>"$out/error" || [ $? = 1 ]; } 2>"$out/time"
	loglik=$(sed -n '1s/.*log-likelihood \([-0-9.e+]*\) on .*/\1/p' "$out/text")
	verdict=$(sed -n 's/^Optimum: \([a-z ]*\);.*/\1/p' "$out/text")
	[ -n "$loglik" ] || { cat "$out/error" >&2; exit 2; }
	echo "$seed	$loglik	${verdict:-none}	$(tail -1 "$out/time")" | tee -a "$out/all"
done
awk -F'\t' '{ v[NR] = $2; verdict[NR] = $3; if (NR == 1 || $2 > best) best = $2 }
	END {
		for (i = 1; i <= NR; i++) {
			if (best - v[i] <= .5) reach++
			if (verdict[i] == "pass") { pass++; if (best - v[i] > .5) wrong++ }
		}
		printf "%d fits, best %.2f, reached by %d; %d pass, %d of them more than .5 below\n", NR, best, reach, pass, wrong
		exit wrong > 0
	}' "$out/all"
