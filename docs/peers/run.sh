#!/usr/bin/env bash
# Runs flexmix and moe on the same data, one after the other, and prints the
# table of docs/studies/peers.md. From the root of a clone; needs R with flexmix and
# mixtools (Debian: r-cran-flexmix r-cran-mixtools) and Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$root" && go build -o "$work/moe" ./cmd/moe)
cp "$root/examples/tone.csv" "$work"
cd "$work"
Rscript "$here/data.R"
for k in 2 3 4; do
	./moe sample --activation identity --k $k --d 10 --n 10000 --seed 1 -o paper$k.csv --quiet >/dev/null
done

# compare DATA K GATE INTERCEPT NOISE STARTS
compare() {
	local flags=(--activation identity --k "$2" --gate "$3" --noise "$5")
	[ "$4" = 1 ] && flags+=(--intercept)
	echo "flexmix  $(Rscript "$here/flexmix.R" "$1" "$2" "$3" "$4" "$6")"
	TIMEFORMAT='%U %S'
	local cpu
	cpu=$( { time ./moe fit "$1" "${flags[@]}" -o model.json --quiet >/dev/null || true; } 2>&1 )
	awk -v data="$1" -v k="$2" -v gate="$3" -v cpu="$cpu" '/"log_likelihood"/ && !seen { gsub(/[^-0-9.e]/, "", $2); seen = 1
		split(cpu, t, " "); printf "moe      %s k=%s %s: %.3f, %.3f CPU s in all\n", data, k, gate, $2, t[1] + t[2] }' model.json
}

compare tone.csv 2 softmax 1 per-expert 20
compare tone.csv 3 softmax 1 per-expert 20
compare npreg.csv 2 constant 1 per-expert 20
compare npreg.csv 2 softmax 1 per-expert 20
compare co2.csv 2 constant 1 per-expert 20
compare whiteside.csv 2 constant 1 per-expert 20
compare faithful.csv 2 softmax 1 per-expert 20
compare faithful.csv 3 constant 1 per-expert 20
for k in 2 3 4; do
	compare paper$k.csv $k softmax 0 per-expert 2
done
