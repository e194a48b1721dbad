#!/usr/bin/env Rscript
# Fits counts without a quarter of their rows and judges models by these: the table of counts in docs/studies/heldout.md.
#   MOE_BINARY=moe Rscript newcounts.R OUT [SPLITS [TABLES [MODELS]]]
#   Rscript newcounts.R print OUT
# The first adds a line to OUT for every table, split and model that it lacks, of those named, with semicolons between them.
# Tables are of AER and pscl, every other column a feature; of NMES1988 not the other counts of visits. The seed of a split is its
# number. Log-likelihoods are those of the new rows, seconds of the processor. flexmix has one to four components by BIC,
# of five starts each, and ten minutes for a split.
suppressMessages({library(MASS); library(pscl); library(flexmix); library(jsonlite)})
args <- commandArgs(TRUE)
bioChemists <- NMES1988 <- DoctorVisits <- NULL
data(bioChemists, package = "pscl"); data(NMES1988, package = "AER"); data(DoctorVisits, package = "AER")
others <- c("nvisits", "ovisits", "novisits", "emergency", "hospital")
tables <- list(bioChemists = bioChemists[, c(2:6, 1)],
               DoctorVisits = DoctorVisits[, c(setdiff(names(DoctorVisits), "visits"), "visits")],
               NMES1988 = NMES1988[, c(setdiff(names(NMES1988), c(others, "visits")), "visits")])

formula.of <- function(d) as.formula(paste(tail(names(d), 1), "~", paste(head(names(d), -1), collapse = " + ")))
target <- function(d) d[[ncol(d)]]
sum.exp <- function(l) { top <- apply(l, 1, max); sum(top + log(rowSums(exp(l - top)))) }

zero.inflated <- function(law) function(train, test) {
  fit <- zeroinfl(formula.of(train), data = train, dist = law)
  count <- predict(fit, test, type = "count"); zero <- predict(fit, test, type = "zero"); y <- target(test)
  l <- if (law == "negbin") dnbinom(y, size = fit$theta, mu = count, log = TRUE) else dpois(y, count, log = TRUE)
  sum.exp(cbind(log1p(-zero) + l, ifelse(y == 0, log(zero), -Inf)))
}

mixture <- function(train, test) {
  setTimeLimit(cpu = 600); on.exit(setTimeLimit())
  experts <- formula.of(train); gate <- experts[-2]; best <- NULL
  for (k in 1:4) for (s in 1:5) {
    set.seed(s)
    fit <- try(flexmix(experts, data = train, k = k, model = FLXMRglm(family = "poisson"),
                       concomitant = if (k > 1) FLXPmultinom(gate) else FLXPconstant(),
                       control = list(iter.max = 1000, minprior = 0, tolerance = 1e-9)), silent = TRUE)
    if (!inherits(fit, "try-error") && fit@k == k && is.finite(logLik(fit)) && (is.null(best) || BIC(fit) < BIC(best))) best <- fit
    if (k == 1) break
  }
  k <- best@k
  mean <- do.call(cbind, lapply(predict(best, newdata = test), as.numeric))
  prior <- matrix(0, nrow(test), 1)
  if (k > 1) {
    prior <- model.matrix(gate, test) %*% best@concomitant@coef
    prior <- prior - apply(prior, 1, function(e) max(e) + log(sum(exp(e - max(e)))))
  }
  sum.exp(prior + dpois(target(test), mean, log = TRUE))
}

moe <- function(..., k = "1:4") function(train, test) {
  room <- tempfile(); dir.create(room); on.exit(unlink(room, recursive = TRUE))
  file <- function(name) file.path(room, name)
  write.csv(train, file("train.csv"), row.names = FALSE, quote = FALSE)
  write.csv(test, file("test.csv"), row.names = FALSE, quote = FALSE)
  run <- function(...) {
    said <- suppressWarnings(system2(Sys.getenv("MOE_BINARY", "moe"), c(...), stdout = TRUE))
    if (!is.null(attr(said, "status"))) stop("moe: exit ", attr(said, "status"))
    said
  }
  run("fit", file("train.csv"), "--k", k, "--intercept", "--quiet", "--accept", "any", "-o", file("model.json"), ...)
  judged <- fromJSON(paste(run("evaluate", file("model.json"), file("test.csv"), "--json", "--quiet"), collapse = "\n"))
  if (is.null(judged$predictive_log_likelihood)) judged$log_likelihood else judged$predictive_log_likelihood
}

models <- list(
  "Poisson" = function(train, test)
    sum(dpois(target(test), predict(glm(formula.of(train), poisson, train), test, type = "response"), log = TRUE)),
  "negative binomial" = function(train, test) {
    fit <- glm.nb(formula.of(train), train)
    sum(dnbinom(target(test), size = fit$theta, mu = predict(fit, test, type = "response"), log = TRUE))
  },
  "zero-inflated Poisson" = zero.inflated("poisson"), "zero-inflated negative binomial" = zero.inflated("negbin"),
  "moe, Poisson" = moe("--family", "poisson"), "moe, negative binomial" = moe("--family", "negative-binomial"),
  "moe, one negative binomial and zeros" = moe("--family", "negative-binomial", "--zero-expert", k = "1"),
  "flexmix, Poisson" = mixture)

read <- function(path) if (file.exists(path)) read.csv(path) else NULL

if (args[1] == "print") {
  all <- read(args[2])
  cat("| table | model | splits | log-likelihood a row | to negative binomial | s |\n|---|---|--:|--:|--:|--:|\n")
  for (t in names(tables)) for (m in names(models)) {
    own <- all[all$table == t & all$model == m, ]
    peer <- all[all$table == t & all$model == "negative binomial", ]
    if (nrow(own) == 0) next
    a.row <- own$log.likelihood / own$judged
    off <- a.row - peer$log.likelihood[match(own$split, peer$split)] / own$judged
    cat(sprintf("| %s | %s | %d | %.4f | %+.4f ± %.4f | %.2g |\n", t, m, nrow(own), mean(a.row), mean(off, na.rm = TRUE),
                sd(off) / sqrt(length(off)), mean(own$seconds)))
  }
  quit()
}

named <- function(at, all) if (length(args) < at) all else intersect(all, strsplit(args[at], ";")[[1]])
splits <- if (length(args) > 1) as.integer(args[2]) else 10
for (t in named(3, names(tables))) for (s in 1:splits) for (m in named(4, names(models))) {
  had <- read(args[1])
  if (any(had$table == t & had$split == s & had$model == m)) next
  set.seed(s)
  order <- sample(nrow(tables[[t]])); most <- floor(3 * length(order) / 4)
  train <- tables[[t]][order[1:most], ]; test <- tables[[t]][order[-(1:most)], ]
  begun <- sum(proc.time()[-3], na.rm = TRUE)
  ll <- tryCatch(models[[m]](train, test), error = function(e) { message(t, ", ", m, ": ", conditionMessage(e)); NA })
  row <- data.frame(table = t, split = s, model = m, judged = nrow(test), log.likelihood = ll,
                    seconds = sum(proc.time()[-3], na.rm = TRUE) - begun)
  write.table(row, args[1], append = !is.null(had), sep = ",", row.names = FALSE, col.names = is.null(had))
}
