#!/bin/sh
# starts.sh MOE...: how long programs take to say their version, 200 starts of each, ten at a time in turn: means of
# the processor's milliseconds and of those by the clock, and page faults.
for _ in $(seq 20); do
	for moe; do
		perf stat -r 10 -e task-clock,page-faults "$moe" version 2>&1 >/dev/null | awk -v moe="$moe" '
			/task-clock/ { cpu = $1 } /page-faults/ { faults = $1 } /elapsed/ { print moe, cpu, 1000 * $1, faults }'
	done
done | tr -d , | awk '
{ cpu[$1] += $2; clock[$1] += $3; faults[$1] += $4; n[$1]++ }
END { for (m in n) printf "%s: %.2f ms of the processor, %.2f ms by the clock, %d page faults\n", m, cpu[m] / n[m],
	clock[m] / n[m], faults[m] / n[m] }'
