#!/bin/sh
# size.sh MOE: megabytes of code and of data in a program that was built with its symbols, by module.
set -e
{ go version -m "$1"; go tool nm -size "$1"; } | awk '
$1 == "dep" || $1 == "mod" { modules[$2]; if ($1 == "mod") own = $2; next }
$3 ~ /^[TtRrDd]$/ && $4 != "crypto/internal/fips140/drbg.memory" { # which is empty, and not in the file
	name = $4
	sub(/^(type:\.(eq|hash)\.|go:itab\.\*?)/, "", name)
	of = "standard library"
	if (name ~ /^go:/) of = "tables of the linker"
	else if (name ~ /^main\./) of = own
	else for (m in modules) if (index(name, m) == 1) of = m
	if ($3 ~ /[Tt]/) code[of] += $2; else data[of] += $2
	all[of]
}
END { for (m in all) printf "%5.2f %5.2f %s\n", code[m] / 1e6, data[m] / 1e6, m }' | sort -rn
