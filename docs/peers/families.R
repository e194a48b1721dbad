#!/usr/bin/env Rscript
# Fits every table named, of k = 2 and 3, with flexmix from 20 starts and with one moe fit, and prints
# a line each of the table in docs/studies/families.md: flexmix's best log-likelihood, how many starts are
# within 0.02 of it, how many ended with k experts, its CPU time; moe's log-likelihood, its verdict on the
# optimum and its CPU time; and, where flexmix's best has an expert of fewer than p + 2 rows, the best of its
# others. The family is the file's name before the first hyphen; counts.R writes the tables.
#
#   OPENBLAS_NUM_THREADS=1 MOE_BINARY=moe Rscript families.R TABLE.csv...
suppressMessages({library(flexmix); library(jsonlite)})
starts <- 20
moe <- Sys.getenv("MOE_BINARY", "moe")
cpu <- function(t) sum(unclass(t)[c(1, 2, 4, 5)], na.rm = TRUE)
for (file in commandArgs(TRUE)) for (k in 2:3) {
  family <- sub("-.*", "", basename(file))
  data <- read.csv(file)
  names <- names(data); target <- names[length(names)]
  right <- paste("1 +", paste(names[-length(names)], collapse = " + "))
  left <- if (family == "binomial") sprintf("cbind(%s, 1 - %s)", target, target) else target
  model <- tempfile()
  mine <- system.time(system2(moe, c("fit", shQuote(file), "--family", family, "--k", k, "--intercept", "--accept", "any",
                                     "--quiet", "-o", model), stdout = FALSE, stderr = FALSE))
  fit <- fromJSON(model, simplifyVector = FALSE)
  loglik <- rep(NA, starts); thin <- rep(FALSE, starts)
  time <- system.time(for (s in seq_len(starts)) {
    set.seed(s)
    it <- try(suppressWarnings(flexmix(as.formula(paste(left, "~", right)), data = data, k = k, model = FLXMRglm(family = family),
      concomitant = FLXPmultinom(as.formula(paste("~", right))), control = list(iter.max = 500, minprior = 0))), silent = TRUE)
    if (inherits(it, "try-error") || it@k != k || !is.finite(logLik(it))) next
    loglik[s] <- as.numeric(logLik(it)); thin[s] <- min(colSums(posterior(it))) < length(names) + 2
  })
  best <- suppressWarnings(max(loglik, na.rm = TRUE))
  note <- if (any(thin & loglik > best - 0.02, na.rm = TRUE)) sprintf("%.2f", suppressWarnings(max(loglik[!thin], na.rm = TRUE))) else ""
  cat(sprintf("| %s | %s | %d | %d | %d | %.2f | %d of %d | %.1f | %.2f | %s | %.1f | %s |\n", sub(".csv$", "", sub("^[a-z]*-", "", basename(file))), family,
              nrow(data), length(names) - 1, k, best, sum(loglik >= best - 0.02, na.rm = TRUE), sum(!is.na(loglik)), cpu(time),
              fit$fit$log_likelihood, fit$fit$certificate$optimum, cpu(mine), note))
}
