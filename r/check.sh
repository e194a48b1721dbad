#!/usr/bin/env bash
# Builds the package in r/moe, checks it, and runs the pages' R from a clean library: bash r/check.sh, from anywhere in
# a clone. MOE_BINARY names the command. It needs R; of Debian the packages that .ci/run lists.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${MOE_BINARY:?want the path of the command moe in it}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# What roxygen2 writes is what is there, where it is the version that wrote it.
cp -r "$here/moe" moe
if Rscript -e 'quit(status = packageVersion("roxygen2") != read.dcf("moe/DESCRIPTION")[, "RoxygenNote"])'; then
	Rscript -e 'roxygen2::roxygenise("moe")' >log 2>&1 || { cat log; exit 1; }
	diff -r "$here/moe" moe || { echo "written by hand or old: Rscript -e 'roxygen2::roxygenise(\"r/moe\")'"; exit 1; }
else
	echo "r: man and NAMESPACE are not held, for roxygen2 is of another version"
fi

R CMD build moe >log 2>&1 || { cat log; exit 1; }
# The clock is asked of a server, which a machine need not reach.
_R_CHECK_SYSTEM_CLOCK_=0 _R_CHECK_LIMIT_CORES_=TRUE R CMD check --no-manual moe_*.tar.gz >log 2>&1 || {
	cat log moe.Rcheck/tests/*.fail || true
	exit 1
}
grep '^Status: OK' log || { cat log; exit 1; }

mkdir library
R CMD INSTALL -l library moe_*.tar.gz >log 2>&1 || { cat log; exit 1; }
cd "$here/.."
for page in README.md docs/r.md; do
	R_LIBS="$work/library" Rscript r/pages.R "$page"
done

# Of eleven models R, Python and the command predict the same.
python=/usr/bin/python3
if "$python" -c 'import numpy, scipy, sklearn' 2>/dev/null; then
	R_LIBS="$work/library" PYTHONPATH="python/src" "$python" r/same.py
else
	echo "r: predictions are not held against Python's, for there is none with numpy, scipy and scikit-learn"
fi
