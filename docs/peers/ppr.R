# Root mean squared errors of ten folds of one expert with a curve that is learned, and of R's ppr with one term:
#
#   Rscript docs/peers/ppr.R [TABLE...]
#
# The command moe is on the PATH. Columns are numbers: factors become 0/1 columns as model.matrix makes them. The folds are
# those of sample() after set.seed(1), the same for both programs.
suppressPackageStartupMessages({ library(MASS); library(AER); library(lattice) })
data(CPS1985, package = "AER")
tables <- list(
  airquality = list(Ozone ~ ., na.omit(airquality)[, 1:4]),
  Boston = list(medv ~ ., Boston),
  cpus = list(perf ~ ., cpus[, 2:8]),
  ethanol = list(NOx ~ ., ethanol),
  quakes = list(mag ~ ., quakes),
  CPS1985 = list(wage ~ ., CPS1985)
)
chosen <- commandArgs(TRUE)
if (length(chosen) == 0) chosen <- names(tables)
dir <- tempfile()
dir.create(dir)
moe <- function(...) {
  out <- system2("moe", shQuote(c(..., "--quiet")), stdout = TRUE, stderr = TRUE)
  if (!is.null(attr(out, "status")) && attr(out, "status") > 1) stop(paste(out, collapse = "\n"))
}
at <- function(name) file.path(dir, name)
cat("table rows features moe ppr ratio\n")
for (name in chosen) {
  x <- model.matrix(tables[[name]][[1]], tables[[name]][[2]])[, -1, drop = FALSE]
  y <- model.response(model.frame(tables[[name]][[1]], tables[[name]][[2]]))
  set.seed(1)
  fold <- sample(rep(1:10, length.out = nrow(x)))
  ours <- theirs <- numeric(nrow(x))
  colnames(x) <- paste0("x", seq_len(ncol(x)))
  for (i in 1:10) {
    out <- fold == i
    write.csv(data.frame(x, y)[!out, ], at("train.csv"), row.names = FALSE)
    write.csv(data.frame(x, y)[out, ], at("test.csv"), row.names = FALSE)
    moe("learn-activation", at("train.csv"), "--k", "1", "-o", at("g.csv"), "--model", at("model.json"))
    moe("predict", at("model.json"), at("test.csv"), "-o", at("predictions.csv"))
    ours[out] <- read.csv(at("predictions.csv"))$mean
    theirs[out] <- predict(ppr(x[!out, ], y[!out], nterms = 1), x[out, ])
  }
  rmse <- function(p) sqrt(mean((y - p)^2))
  cat(name, nrow(x), ncol(x), format(rmse(ours), digits = 4), format(rmse(theirs), digits = 4),
      format(rmse(ours) / rmse(theirs), digits = 3), "\n")
}
