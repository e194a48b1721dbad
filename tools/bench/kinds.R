#!/usr/bin/env Rscript
# Fits one start of flexmix to a table of moe sample and prints its seconds of the processor, without reading,
# its iterations and its log-likelihood: kinds.sh calls it.
#
#   Rscript kinds.R KIND DATA.csv K
#
# KIND is poisson, binomial (successes y of the trials in the column trials) or targets (y1 and y2 under one gate).
# The gate sees the features, without intercept, as do the experts. No component is dropped.
suppressMessages(library(flexmix))
args <- commandArgs(TRUE)
kind <- args[1]; data <- read.csv(args[2]); k <- as.integer(args[3])
right <- paste("~ 0 +", paste(grep("^x", names(data), value = TRUE), collapse = " + "))
of <- function(left) as.formula(paste(left, right))
model <- switch(kind,
  poisson = list(FLXMRglm(of("y"), family = "poisson")),
  binomial = list(FLXMRglm(of("cbind(y, trials - y)"), family = "binomial")),
  targets = list(FLXMRglm(of("y1")), FLXMRglm(of("y2"))))
any <- switch(kind, poisson = y ~ 1, binomial = cbind(y, trials - y) ~ 1, targets = y1 ~ 1) # each model has its own
set.seed(1)
time <- system.time(fit <- flexmix(any, data = data, k = k, model = model, concomitant = FLXPmultinom(of("")),
                                   control = list(iter.max = 1000, minprior = 0, tolerance = 1e-6)))
cat(sprintf("%.3f %d %.2f\n", time[[1]] + time[[2]], fit@iter, as.numeric(logLik(fit))))
