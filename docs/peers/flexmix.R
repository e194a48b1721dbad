#!/usr/bin/env Rscript
# Fits a gated mixture of linear regressions with flexmix from several starts
# and prints the best log-likelihood, how many starts reached it, and the CPU
# time of one.
#
#   Rscript flexmix.R DATA.csv K softmax|constant INTERCEPT(0|1) STARTS
#
# The target is the last column, a column z is left out. Needs the package
# flexmix (Debian: r-cran-flexmix).
suppressMessages(library(flexmix))
args <- commandArgs(TRUE)
data <- read.csv(args[1]); data$z <- NULL
k <- as.integer(args[2]); starts <- as.integer(args[5])
names <- names(data); target <- names[length(names)]
right <- paste(if (args[4] == "1") "1" else "0", "+", paste(names[-length(names)], collapse = " + "))
experts <- as.formula(paste(target, "~", right))
gate <- if (args[3] == "softmax") FLXPmultinom(as.formula(paste("~", right))) else FLXPconstant()
# Its best settings: no component is dropped, and a tight tolerance.
control <- list(iter.max = 1000, minprior = 0, tolerance = 1e-9)
loglik <- rep(-Inf, starts)
time <- system.time(for (s in seq_len(starts)) {
  set.seed(s)
  fit <- try(flexmix(experts, data = data, k = k, model = FLXMRglm(family = "gaussian"), concomitant = gate, control = control), silent = TRUE)
  if (!inherits(fit, "try-error") && fit@k == k && is.finite(logLik(fit))) loglik[s] <- as.numeric(logLik(fit))
})
cat(sprintf("%s k=%d %s: best %.3f, reached by %d of %d starts, %.3f CPU s a start\n", basename(args[1]), k, args[3],
            max(loglik), sum(loglik > max(loglik) - 0.01), starts, (time[[1]] + time[[2]]) / starts))
