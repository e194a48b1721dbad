#!/usr/bin/env Rscript
# Fits every table named, of k = 2 and 3, with flexmix from 20 starts and prints a line
# each: the best log-likelihood of the starts that are admissible by the rule of
# docs/theory/search.md (no expert of fewer than p + 2 rows, nor with a sigma below 0.002 of the
# target's standard deviation), how many are within 0.02 of it, how many are
# admissible, how many failed, and the CPU time of all.
#
#   Rscript bar.R TABLE.csv...
suppressMessages(library(flexmix))
starts <- 20
for (file in commandArgs(TRUE)) for (k in 2:3) {
  data <- read.csv(file)
  names <- names(data); target <- names[length(names)]
  right <- paste("1 +", paste(names[-length(names)], collapse = " + "))
  least <- length(names) + 2
  control <- list(iter.max = 500, minprior = 0)
  loglik <- rep(NA, starts); failed <- 0
  time <- system.time(for (s in seq_len(starts)) {
    set.seed(s)
    fit <- try(suppressWarnings(flexmix(as.formula(paste(target, "~", right)), data = data, k = k, model = FLXMRglm(family = "gaussian"),
      concomitant = FLXPmultinom(as.formula(paste("~", right))), control = control)), silent = TRUE)
    if (inherits(fit, "try-error") || fit@k != k || !is.finite(logLik(fit))) { failed <- failed + 1; next }
    sigma <- parameters(fit)["sigma", ]
    if (all(is.finite(sigma)) && min(sigma) >= 0.002 * sd(data[[target]]) && min(colSums(posterior(fit))) >= least) loglik[s] <- as.numeric(logLik(fit))
  })
  best <- suppressWarnings(max(loglik, na.rm = TRUE))
  cat(sprintf("%s %d %.4f %d %d %d %.2f\n", sub(".csv$", "", basename(file)), k, best, sum(loglik >= best - 0.02, na.rm = TRUE),
              sum(!is.na(loglik)), failed, time[[1]] + time[[2]]))
}
