#!/usr/bin/env Rscript
# Fits a gated mixture of linear regressions with flexmix, of one to four components by BIC, to a table and judges it by
# another: Rscript newrows.R TRAIN.csv TEST.csv. The target is the last column. Prints a line of JSON, for newrows.py.
suppressMessages(library(flexmix))
args <- commandArgs(TRUE)
train <- read.csv(args[1], stringsAsFactors = TRUE); test <- read.csv(args[2], stringsAsFactors = TRUE)
for (v in names(train)) if (is.factor(train[[v]])) {
  test[[v]] <- factor(as.character(test[[v]]), levels = levels(train[[v]]))
  test[[v]][is.na(test[[v]])] <- levels(train[[v]])[1]
}
target <- names(train)[ncol(train)]
right <- as.formula(paste("~", paste(names(train)[-ncol(train)], collapse = " + ")))
experts <- update(right, as.formula(paste(target, "~ .")))
best <- NULL
for (k in 1:4) for (s in 1:5) {
  set.seed(s)
  fit <- try(flexmix(experts, data = train, k = k, concomitant = if (k > 1) FLXPmultinom(right) else FLXPconstant(),
                     control = list(iter.max = 1000, minprior = 0, tolerance = 1e-9)), silent = TRUE)
  if (!inherits(fit, "try-error") && fit@k == k && is.finite(logLik(fit)) && (is.null(best) || BIC(fit) < BIC(best))) best <- fit
  if (k == 1) break
}
k <- best@k
y <- test[[target]]
mean <- do.call(cbind, lapply(predict(best, newdata = test), as.numeric))
sigma <- sapply(1:k, function(i) best@components[[i]][[1]]@parameters$sigma)
prior <- matrix(1, nrow(test), 1)
if (k > 1) {
  eta <- model.matrix(right, test) %*% best@concomitant@coef
  prior <- exp(eta - apply(eta, 1, max)); prior <- prior / rowSums(prior)
}
log.density <- sapply(1:k, function(i) log(prior[, i]) + dnorm(y, mean[, i], sigma[i], log = TRUE))
log.density <- matrix(log.density, ncol = k)
top <- apply(log.density, 1, max)
ll <- sum(top + log(rowSums(exp(log.density - top))))
quantile.of <- function(r, q) {
  ends <- range(mean[r, ] - 9 * sigma, mean[r, ] + 9 * sigma)
  uniroot(function(v) sum(prior[r, ] * pnorm(v, mean[r, ], sigma)) - q, ends, tol = 1e-8 * diff(ends))$root
}
lower <- sapply(seq_along(y), quantile.of, q = 0.05); upper <- sapply(seq_along(y), quantile.of, q = 0.95)
expected <- rowSums(prior * mean)
cat(sprintf('{"log_likelihood": %.10g, "rmse": %.10g, "coverage": %.10g, "width": %.10g, "k": %d}\n', ll,
            sqrt(base::mean((y - expected)^2)), base::mean(lower <= y & y <= upper), base::mean(upper - lower), k))
