#!/usr/bin/env Rscript
# Fits tables with k = 2 by R's optim (BFGS, differences for the gradient) from 20 random starts and by one moe fit,
# and prints a line each of the table in docs/studies/families.md: optim's best log-likelihood, how many starts are
# within 0.02 of it, its CPU time; moe's log-likelihood, verdict on the optimum and CPU time. Dispersions are shared.
# Gamma and t have six tables of datasets, the negative binomial those of counts.R that are named.
#
#   MOE_BINARY=moe Rscript optim.R gamma|student-t|negative-binomial    where counts.R has run
suppressMessages(library(jsonlite))
moe <- Sys.getenv("MOE_BINARY", "moe")
cpu <- function(t) sum(unclass(t)[c(1, 2, 4, 5)], na.rm = TRUE)
family <- commandArgs(TRUE)[1]
tables <- if (family == "negative-binomial") c("Arabidopsis", "CPS1985", "ChickWeight", "Mroz", "Ornstein", "PhDPublications") else
  c("attitude", "cars", "faithful", "rock", "swiss", "trees")
# The logarithm of the density of y at predictors z, dispersions by their logarithms.
law <- switch(family,
  "gamma" = function(y, z, psi) dgamma(y, shape = exp(psi[1]), rate = exp(psi[1] - z), log = TRUE),
  "negative-binomial" = function(y, z, psi) dnbinom(y, size = exp(psi[1]), mu = exp(z), log = TRUE),
  "student-t" = function(y, z, psi) dt((y - z) / exp(psi[1]), df = 1 + exp(psi[2]), log = TRUE) - psi[1])
for (name in tables) {
  file <- paste0("poisson-", name, ".csv")
  if (family != "negative-binomial") write.csv(get(name), file <- tempfile(fileext = ".csv"), row.names = FALSE, quote = FALSE)
  data <- read.csv(file)
  p <- ncol(data); y <- data[[p]]; x <- cbind(1, scale(as.matrix(data[-p])))
  shift <- if (family == "student-t") c(mean(y), sd(y)) else c(0, 1)
  y <- (y - shift[1]) / shift[2]
  minus <- function(v) {
    gate <- plogis(drop(x %*% v[1:p]), log.p = TRUE); rest <- plogis(-drop(x %*% v[1:p]), log.p = TRUE)
    psi <- v[-(1:(3 * p))]
    a <- gate + law(y, drop(x %*% v[p + 1:p]), psi); b <- rest + law(y, drop(x %*% v[2 * p + 1:p]), psi)
    most <- pmax(a, b)
    value <- -sum(most + log(exp(a - most) + exp(b - most)))
    if (is.finite(value)) value else 1e10
  }
  loglik <- rep(NA, 20)
  time <- system.time(for (s in 1:20) {
    set.seed(s)
    centre <- if (family == "student-t") 0 else log(mean(y))
    start <- c(rnorm(p), c(centre, rep(0, p - 1)) + rnorm(p, sd = 0.5), c(centre, rep(0, p - 1)) + rnorm(p, sd = 0.5), 0,
               if (family == "student-t") 1)
    end <- try(suppressWarnings(optim(start, minus, method = "BFGS", control = list(maxit = 2000, reltol = 1e-12))), silent = TRUE)
    if (!inherits(end, "try-error") && end$value < 1e9) loglik[s] <- -end$value - length(y) * log(shift[2])
  })
  model <- tempfile()
  mine <- system.time(system2(moe, c("fit", shQuote(file), "--family", family, "--k 2 --intercept --accept any --quiet -o", model),
                              stdout = FALSE, stderr = FALSE))
  fit <- fromJSON(model, simplifyVector = FALSE)$fit
  best <- max(loglik, na.rm = TRUE)
  cat(sprintf("| %s | %s | %d | %d | %.2f | %d | %.1f | %.2f | %s | %.1f |\n", name, family, length(y), p - 1, best,
              sum(loglik >= best - 0.02, na.rm = TRUE), cpu(time), fit$log_likelihood, fit$certificate$optimum, cpu(mine)))
}
