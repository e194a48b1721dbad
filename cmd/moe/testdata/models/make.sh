#!/bin/bash
# Makes the models of TestScreensOfFiles from tables that come with R (packages datasets and MASS):
#   bash make.sh MOE    MOE being the command
# and then go test ./cmd/moe -run TestScreensOfFiles -update. The screens are those of the files, so the models are made again only
# where files have something new to be shown.
set -u
moe=$1
here=$(cd "$(dirname "$0")" && pwd)
tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
cd "$tables"
Rscript - <<'R'
library(MASS)
w <- function(name, d, y) { d <- d[, c(setdiff(names(d), y), y)]; write.csv(d, paste0(name, ".csv"), row.names=FALSE, quote=FALSE) }
w("faithful", faithful, "waiting"); w("mtcars", mtcars, "mpg"); w("iris", iris, "Petal.Length"); w("airquality", airquality, "Ozone")
w("cars", cars, "dist"); w("trees", trees, "Volume"); w("swiss", swiss, "Fertility"); w("stackloss", stackloss, "stack.loss")
w("longley", longley, "Employed"); w("quakes", quakes, "stations"); w("ToothGrowth", ToothGrowth, "len"); w("rock", rock, "perm")
w("attitude", attitude, "rating"); w("InsectSprays", InsectSprays, "count"); w("warpbreaks", warpbreaks, "breaks"); w("mcycle", mcycle, "accel")
w("cats", cats, "Hwt"); w("hills", hills, "time"); w("geyser", geyser, "waiting"); w("birthwt", birthwt[, -1], "bwt"); w("Pima", Pima.tr[, 1:7], "bp"); w("Cars93", Cars93[, c("Type","Horsepower","Weight","DriveTrain","Price")], "Price")
R
fit() { "$moe" fit "$1.csv" "${@:2}" -o "$here/$1.json" --quiet --accept any > "$1.txt" || echo "$1: exit code $?"; }
fit faithful
fit mtcars --features wt,hp,qsec --target mpg
fit iris --k 2 --intercept --noise per-expert
fit airquality --missing drop
fit cars
fit trees --formula 'Volume ~ log(Girth) + Height' --k 1:2
fit swiss --k 2 --intercept
fit stackloss --k 1:3 --intercept
fit longley
fit quakes --k 3 --intercept
fit ToothGrowth --categorical dose
fit rock --k 2 --intercept --robust
fit attitude
fit InsectSprays
fit warpbreaks --formula 'breaks ~ wool * tension | wool' --k 2
fit mcycle --activation relu --k 3 --intercept
fit cats --hierarchy 2x2 --intercept
fit hills --k 2 --intercept --method em
fit geyser --activation tanh --k 2 --intercept --output-scale shared
fit birthwt --starts 1
fit Pima --k 2 --method moments
fit Cars93
