#!/usr/bin/env Rscript
# Fits the examples of flexmix's help pages and vignettes that moe has the models for with both, and prints a line of a
# table for each: flexmix's best of 20 starts, how many reach it, moe's optimum, and how far the experts'
# coefficients are apart, in standard errors, where it is the same optimum.
#
#   MOE_BINARY=moe Rscript docs/peers/examples.R [NAME...]
#
# Needs the packages flexmix (Debian: r-cran-flexmix) and moe (r/moe).
library(moe)
suppressMessages(library(flexmix))
data(list = c("betablocker", "bioChemists", "BregFix", "dmft", "fabricfault", "Mehta", "NPreg", "NregFix", "patent",
              "salmonellaTA98", "seizure", "tribolium", "trypanosome"), package = "flexmix")
suppressWarnings(RNGversion("3.5.0"))
glmm <- function(family = "gaussian", ...) FLXMRglm(family = family, ...)
fixed <- function(formula, family = "gaussian", ...) FLXMRglmfix(family = family, fixed = formula, ...)

NregFix$y <- drop(NregFix$y)
Mehta15 <- subset(Mehta, Site != 15)
tribolium <- transform(tribolium, third = Replicate == 3, Replicate = factor(Replicate), Confusum = Species == "Confusum")
tribolium7 <- tribolium[-7, ]
dmft$log_begin <- log(dmft$Begin + 0.5)
cross <- data.frame(x = rep(0:1, each = 50))
set.seed(123)
cross$y <- rflexmix(FLXdist(y ~ x, k = rep(0.5, 2), components = list(
  list(Model_1 = list(coef = c(1, -2), sigma = sqrt(0.1))), list(Model_1 = list(coef = c(2, 2), sigma = sqrt(0.1))))),
  newdata = cross)$y[[1]]
set.seed(1)
beta <- cbind(c(1, 2), c(3, -1))
linear <- ExLinear(rbind(beta, c(-2, 2)), 100, sd = c(.5, 1), xdist = c("runif", "rexp"),
                   xdist.args = list(list(min = -1, max = 2), list(rate = 3)))
counts <- ExLinear(beta / 2, 100, min = -1, max = 2, family = "poisson")
set.seed(123)
four <- ExLinear(matrix(1:16, ncol = 4), n = 100, sd = .5)

# flexmix's call, and moe's for the same model.
example <- function(flexmix, moe) list(flexmix = substitute(flexmix), moe = substitute(moe))
examples <- list(
  # The help pages and flexmix-intro.
  "NPreg, yn" = example(flexmix(yn ~ x + I(x^2), data = NPreg, k = 2),
    moe(yn ~ x + I(x^2) | 1, NPreg, k = 2, noise = "per-expert")),
  "NPreg, yn by id2" = example(flexmix(yn ~ x + I(x^2) | id2, data = NPreg, k = 2),
    moe(yn ~ x + I(x^2) | 1, NPreg, k = 2, noise = "per-expert", group = id2)),
  "NPreg, yp" = example(flexmix(yp ~ x, data = NPreg, k = 2, model = glmm("poisson")),
    moe(yp ~ x | 1, NPreg, k = 2, family = "poisson")),
  "NPreg, yp by id1" = example(flexmix(yp ~ x | id1, data = NPreg, k = 2, model = glmm("poisson")),
    moe(yp ~ x | 1, NPreg, k = 2, family = "poisson", group = id1)),
  "NPreg, yp, square" = example(flexmix(yp ~ x + I(x^2), data = NPreg, k = 2, model = glmm("poisson")),
    moe(yp ~ x + I(x^2) | 1, NPreg, k = 2, family = "poisson")),
  "NPreg, yb" = example(flexmix(cbind(yb, 1 - yb) ~ x, data = NPreg, k = 2, model = glmm("binomial")),
    moe(yb ~ x | 1, NPreg, k = 2, family = "binomial")),
  "NPreg, yb by id2" = example(flexmix(cbind(yb, 1 - yb) ~ x | id2, data = NPreg, k = 2, model = glmm("binomial")),
    moe(yb ~ x | 1, NPreg, k = 2, family = "binomial", group = id2)),
  "ExLinear, two features" = example(flexmix(y ~ ., data = linear, k = 2),
    moe(y ~ x1 + x2 | 1, linear, k = 2, noise = "per-expert")),
  "ExLinear, counts" = example(flexmix(y ~ ., data = counts, k = 2, model = glmm("poisson")),
    moe(y ~ x1 | 1, counts, k = 2, family = "poisson")),
  "ExLinear, four" = example(flexmix(y ~ ., data = four, k = 4),
    moe(y ~ x1 + x2 + x3 | 1, four, k = 4, noise = "per-expert")),
  # bootstrapping
  "two lines" = example(flexmix(y ~ x, data = cross, k = 2),
    moe(y ~ x | 1, cross, k = 2, noise = "per-expert")),
  # mixture-regressions and regression-examples
  "NregFix" = example(flexmix(y ~ x2 + x1, data = NregFix, k = 3, concomitant = FLXPmultinom(~ w)),
    moe(y ~ x2 + x1 | w, NregFix, k = 3, noise = "per-expert")),
  "betablocker, 2" = example(flexmix(cbind(Deaths, Total - Deaths) ~ 1 | Center, data = betablocker, k = 2, model = fixed(~ Treatment, "binomial")),
    moe(cbind(Deaths, Total - Deaths) ~ Treatment | 1, betablocker, k = 2, family = "binomial", group = Center, shared = "Treatment")),
  "betablocker, 3" = example(flexmix(cbind(Deaths, Total - Deaths) ~ 1 | Center, data = betablocker, k = 3, model = fixed(~ Treatment, "binomial")),
    moe(cbind(Deaths, Total - Deaths) ~ Treatment | 1, betablocker, k = 3, family = "binomial", group = Center, shared = "Treatment")),
  "betablocker, 4" = example(flexmix(cbind(Deaths, Total - Deaths) ~ 1 | Center, data = betablocker, k = 4, model = fixed(~ Treatment, "binomial")),
    moe(cbind(Deaths, Total - Deaths) ~ Treatment | 1, betablocker, k = 4, family = "binomial", group = Center, shared = "Treatment")),
  "betablocker, own slopes" = example(flexmix(cbind(Deaths, Total - Deaths) ~ Treatment | Center, data = betablocker, k = 3, model = glmm("binomial")),
    moe(cbind(Deaths, Total - Deaths) ~ Treatment | 1, betablocker, k = 3, family = "binomial", group = Center)),
  "Mehta" = example(flexmix(cbind(Response, Total - Response) ~ 1 | Site, data = Mehta, k = 3, model = fixed(~ Drug, "binomial")),
    moe(cbind(Response, Total - Response) ~ Drug | 1, Mehta, k = 3, family = "binomial", group = Site, shared = "Drug")),
  "Mehta, own slopes" = example(flexmix(cbind(Response, Total - Response) ~ Drug | Site, data = Mehta, k = 3, model = glmm("binomial")),
    moe(cbind(Response, Total - Response) ~ Drug | 1, Mehta, k = 3, family = "binomial", group = Site)),
  "Mehta without site 15" = example(flexmix(cbind(Response, Total - Response) ~ 1 | Site, data = Mehta15, k = 2, model = fixed(~ Drug, "binomial")),
    moe(cbind(Response, Total - Response) ~ Drug | 1, Mehta15, k = 2, family = "binomial", group = Site, shared = "Drug")),
  "tribolium" = example(flexmix(cbind(Remaining, Total - Remaining) ~ Species, data = tribolium, k = 2, model = glmm("binomial")),
    moe(cbind(Remaining, Total - Remaining) ~ Species | 1, tribolium, k = 2, family = "binomial")),
  "tribolium, replicates, 2" = example(flexmix(cbind(Remaining, Total - Remaining) ~ 1, data = tribolium, k = 2, model = fixed(~ Species, "binomial"), concomitant = FLXPmultinom(~ Replicate)),
    moe(cbind(Remaining, Total - Remaining) ~ Species | Replicate, tribolium, k = 2, family = "binomial", shared = "Species")),
  "tribolium, replicates, 3" = example(flexmix(cbind(Remaining, Total - Remaining) ~ 1, data = tribolium, k = 3, model = fixed(~ Species, "binomial"), concomitant = FLXPmultinom(~ Replicate)),
    moe(cbind(Remaining, Total - Remaining) ~ Species | Replicate, tribolium, k = 3, family = "binomial", shared = "Species")),
  "tribolium, Wang" = example(flexmix(cbind(Remaining, Total - Remaining) ~ 1, data = tribolium, k = 2, model = fixed(~ Confusum, "binomial"), concomitant = FLXPmultinom(~ third)),
    moe(cbind(Remaining, Total - Remaining) ~ Confusum | third, tribolium, k = 2, family = "binomial", shared = "Confusum")),
  "tribolium, Wang, without 7" = example(flexmix(cbind(Remaining, Total - Remaining) ~ 1, data = tribolium7, k = 2, model = fixed(~ Confusum, "binomial"), concomitant = FLXPmultinom(~ third)),
    moe(cbind(Remaining, Total - Remaining) ~ Confusum | third, tribolium7, k = 2, family = "binomial", shared = "Confusum")),
  "trypanosome" = example(flexmix(cbind(Dead, 1 - Dead) ~ 1, data = trypanosome, k = 2, model = fixed(~ log(Dose), "binomial")),
    moe(Dead ~ log(Dose) | 1, trypanosome, k = 2, family = "binomial", shared = "log(Dose)")),
  "fabricfault" = example(flexmix(Faults ~ 1, data = fabricfault, k = 2, model = fixed(~ log(Length), "poisson")),
    moe(Faults ~ log(Length) | 1, fabricfault, k = 2, family = "poisson", shared = "log(Length)")),
  "patent" = example(flexmix(Patents ~ lgRD, data = patent, k = 3, model = glmm("poisson"), concomitant = FLXPmultinom(~ RDS)),
    moe(Patents ~ lgRD | RDS, patent, k = 3, family = "poisson")),
  "patent, fixed" = example(flexmix(Patents ~ 1, data = patent, k = 3, model = fixed(~ lgRD, "poisson"), concomitant = FLXPmultinom(~ RDS)),
    moe(Patents ~ lgRD | RDS, patent, k = 3, family = "poisson", shared = "lgRD")),
  "seizure" = example(flexmix(Seizures ~ Treatment * log(Day), data = seizure, k = 2, model = glmm("poisson", offset = log(seizure$Hours))),
    moe(Seizures ~ Treatment * log(Day) + offset(log(Hours)) | 1, seizure, k = 2, family = "poisson")),
  "seizure, day 27" = example(flexmix(Seizures ~ Treatment * log(Day / 27), data = seizure, k = 2, model = glmm("poisson", offset = log(seizure$Hours))),
    moe(Seizures ~ Treatment * log(Day / 27) + offset(log(Hours)) | 1, seizure, k = 2, family = "poisson")),
  "seizure, no jump" = example(flexmix(Seizures ~ log(Day / 27) / Treatment, data = seizure, k = 2, model = glmm("poisson", offset = log(seizure$Hours))),
    moe(Seizures ~ log(Day / 27) / Treatment + offset(log(Hours)) | 1, seizure, k = 2, family = "poisson")),
  "salmonellaTA98" = example(flexmix(y ~ 1, data = salmonellaTA98, k = 2, model = fixed(~ x + log(x + 10), "poisson")),
    moe(y ~ x + log(x + 10) | 1, salmonellaTA98, k = 2, family = "poisson", shared = c("x", "log(x + 10)"))),
  "bioChemists" = example(flexmix(art ~ ., data = bioChemists, k = 2, model = glmm("poisson")),
    moe(art ~ fem + mar + kid5 + phd + ment | 1, bioChemists, k = 2, family = "poisson")),
  "bioChemists, model 2" = example(flexmix(art ~ fem + phd, data = bioChemists, k = 2, model = fixed(~ kid5 + mar + ment, "poisson")),
    moe(art ~ fem + phd + kid5 + mar + ment | 1, bioChemists, k = 2, family = "poisson", shared = c("kid5", "mar", "ment"))),
  "bioChemists, model 3" = example(flexmix(art ~ fem, data = bioChemists, k = 2, model = fixed(~ kid5 + mar + ment, "poisson")),
    moe(art ~ fem + kid5 + mar + ment | 1, bioChemists, k = 2, family = "poisson", shared = c("kid5", "mar", "ment"))),
  "bioChemists, model 4" = example(flexmix(art ~ 1, data = bioChemists, k = 2, model = fixed(~ kid5 + mar + ment, "poisson"), concomitant = FLXPmultinom(~ fem)),
    moe(art ~ kid5 + mar + ment | fem, bioChemists, k = 2, family = "poisson", shared = c("kid5", "mar", "ment"))),
  "bioChemists, model 5" = example(flexmix(art ~ 1, data = bioChemists, k = 2, model = fixed(~ kid5 + ment + fem, "poisson")),
    moe(art ~ kid5 + ment + fem | 1, bioChemists, k = 2, family = "poisson", shared = c("kid5", "ment", "fem"))),
  "dmft, fixed" = example(flexmix(End ~ 1, data = dmft, k = 2, model = fixed(~ Gender + Ethnic + Treatment, "poisson")),
    moe(End ~ Gender + Ethnic + Treatment | 1, dmft, k = 2, family = "poisson", shared = c("Gender", "Ethnic", "Treatment"))),
  "dmft, zero inflated" = example(flexmix(End ~ log_begin + Gender + Ethnic + Treatment, data = dmft, k = 2, model = FLXMRziglm(family = "poisson")),
    moe(End ~ log_begin + Gender + Ethnic + Treatment | 1, dmft, k = 1, family = "poisson", zero_expert = TRUE))
)

starts <- function(call, n = 20) {
  call$control <- list(iter.max = 2000, minprior = 0, tolerance = 1e-12)
  fits <- lapply(seq_len(n), function(seed) {
    set.seed(seed)
    try(suppressWarnings(eval(call, globalenv())), silent = TRUE)
  })
  fits <- Filter(function(f) inherits(f, "flexmix") && is.finite(logLik(f)) && f@k == call$k, fits)
  value <- vapply(fits, function(f) as.numeric(logLik(f)), 0)
  list(best = fits[[which.max(value)]], value = value)
}

# The largest difference of a coefficient, in moe's standard errors, over the orders of the components.
apart <- function(peer, fit) {
  theirs <- parameters(peer)
  theirs <- theirs[grepl("^coef", rownames(theirs)), , drop = FALSE]
  theirs <- theirs[, apply(theirs, 2, function(column) all(is.finite(column))), drop = FALSE]
  own <- coef(fit, "experts")
  error <- tryCatch(sqrt(diag(vcov(fit)))[names(own)], error = function(e) NA)
  term <- sub("^expert[0-9]+:", "", names(own))
  k <- length(own) / length(unique(term))
  if (ncol(theirs) != k) stop("components differ")
  rows <- match(tolower(unique(term)), tolower(sub("^coef[.]", "", rownames(theirs))))
  theirs <- theirs[rows, , drop = FALSE]
  orders <- as.matrix(expand.grid(rep(list(seq_len(k)), k)))
  orders <- orders[apply(orders, 1, function(o) !anyDuplicated(o)), , drop = FALSE]
  difference <- function(o) max(abs(own - c(theirs[, o])) / error)
  if (anyNA(error)) NA else min(apply(orders, 1, difference)) # NA where there are no standard errors
}

asked <- commandArgs(TRUE)
cat("| example | n | k | flexmix, best of 20 | reached by | moe | above | optimum | coefficients apart |\n|---|--:|--:|--:|--:|--:|--:|---|--:|\n")
below <- 0
for (name in if (length(asked)) asked else names(examples)) {
  peer <- starts(examples[[name]]$flexmix)
  fit <- eval(examples[[name]]$moe)
  best <- max(peer$value)
  above <- as.numeric(logLik(fit)) - best
  below <- below + (above < -0.02)
  cat(sprintf("| %s | %d | %d | %.4f | %d | %.4f | %s | %s | %s |\n", name, nobs(fit), examples[[name]]$flexmix$k, best,
              sum(peer$value > best - 0.02), as.numeric(logLik(fit)), if (abs(above) < 0.02) "0" else sprintf("%.2f", above),
              glance(fit)$optimum, if (abs(above) < 0.02) format(signif(apart(peer$best, fit), 1)) else ""))
}
quit(status = below > 0)
