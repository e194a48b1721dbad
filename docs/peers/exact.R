#!/usr/bin/env Rscript
# Fits tables of R's packages by moe, two experts each, climbs from there by optim with the analytic gradient of a
# likelihood of its own, and prints a line each of the table in docs/studies/families.md: how far the two maxima are
# apart, in standard errors, and the two informations, over the roots of their diagonals.
#
#   MOE_BINARY=moe Rscript exact.R    # where counts.R has written its tables
#
# Needs jsonlite.
suppressMessages({library(jsonlite); library(MASS)})
moe <- Sys.getenv("MOE_BINARY", "moe")
table <- function(data, target) cbind(data[setdiff(names(data), target)], data[target])
cases <- list(
  list("faithful", faithful, "waiting", "gaussian", 0),
  list("mcycle", mcycle, "accel", "gaussian", 0),
  list("cars", cars, "dist", "student-t", 4),
  list("geyser", geyser, "waiting", "student-t", 4),
  list("cars", cars, "dist", "gamma", 0),
  list("faithful", faithful, "waiting", "gamma", 0),
  list("ChickWeight", NULL, "", "poisson", 0), list("Affairs", NULL, "", "poisson", 0), list("Ornstein", NULL, "", "poisson", 0),
  list("Medicaid1986", NULL, "", "poisson", 0),
  list("Ornstein", NULL, "", "negative-binomial", 0), list("PhDPublications", NULL, "", "negative-binomial", 0),
  list("CartelStability", NULL, "", "binomial", 0))

# log f, with its derivatives by the predictor z and by the logarithm of the family's own parameter s.
laws <- list(
  gaussian = function(y, z, s, t) { e <- (y - z) / s; list(f = dnorm(y, z, s, log = TRUE), z = e / s, s = e^2 - 1) },
  `student-t` = function(y, z, s, t) { e <- (y - z) / s; w <- (t + 1) / (t + e^2)
    list(f = dt(e, t, log = TRUE) - log(s), z = w * e / s, s = w * e^2 - 1) },
  gamma = function(y, z, s, t) list(f = dgamma(y, s, s / exp(z), log = TRUE), z = s * (y / exp(z) - 1),
    s = s * (log(s) + 1 - z - digamma(s) + log(y) - y / exp(z))),
  poisson = function(y, z, s, t) list(f = dpois(y, exp(z), log = TRUE), z = y - exp(z)),
  `negative-binomial` = function(y, z, s, t) { m <- exp(z)
    list(f = dnbinom(y, size = s, mu = m, log = TRUE), z = s * (y - m) / (s + m),
         s = s * (digamma(s + y) - digamma(s) + log(s / (s + m)) + (m - y) / (s + m))) },
  binomial = function(y, z, s, t) list(f = dbinom(y, t, plogis(z), log = TRUE), z = y - t * plogis(z)))

for (case in cases) {
  name <- case[[1]]; family <- case[[4]]; dof <- case[[5]]
  data <- if (is.null(case[[2]])) read.csv(sprintf("%s-%s.csv", if (family == "binomial") family else "poisson", name)) else
    table(case[[2]], case[[3]])
  file <- tempfile(fileext = ".csv"); model <- tempfile(fileext = ".json")
  write.csv(data, file, row.names = FALSE)
  flags <- c("fit", file, "--family", family, "--k", "2", "--intercept", "--accept", "any", "--quiet", "--gate-penalty", "none", "-o", model)
  if (dof > 0) flags <- c(flags, "--dof", dof)
  system2(moe, flags, stdout = FALSE, stderr = FALSE)
  fit <- fromJSON(model)
  names <- fit$covariance$parameters; covariance <- fit$covariance$matrix
  if (is.null(covariance)) { cat(sprintf("| %s | %s | no standard errors |\n", name, family)); next }
  x <- cbind(as.matrix(data[fit$features]), 1); y <- data[[ncol(data)]]; p <- ncol(x)
  own <- length(names) > 3 * p
  scale <- if (!own) NULL else if (family %in% c("gaussian", "student-t")) fit$sigma[1] else unlist(fit$own)[1]
  theta <- c(cbind(fit$regressors, fit$regressor_intercepts)[1, ], cbind(fit$regressors, fit$regressor_intercepts)[2, ],
             fit$gating, fit$gating_intercepts, if (own) log(scale))
  extra <- if (dof > 0) dof else 1 # a trial
  parts <- function(q) {
    a <- matrix(q[1:(2 * p)], p); w <- q[2 * p + 1:p]; s <- exp(q[3 * p + 1])
    z <- x %*% a; logit <- drop(x %*% w)
    one <- laws[[family]](y, z[, 1], s, extra); two <- laws[[family]](y, z[, 2], s, extra)
    l1 <- plogis(logit, log.p = TRUE) + one$f; l2 <- plogis(-logit, log.p = TRUE) + two$f
    top <- pmax(l1, l2); value <- top + log(exp(l1 - top) + exp(l2 - top)); r <- exp(l1 - value)
    list(value = sum(value), grad = c(crossprod(x, r * one$z), crossprod(x, (1 - r) * two$z), crossprod(x, r - plogis(logit)),
                                      if (own) sum(r * one$s + (1 - r) * two$s)))
  }
  if (length(names) != length(theta)) { cat(sprintf("| %s | %s | not of all parameters |\n", name, family)); next }
  jacobian <- c(rep(1, 3 * p), if (own) 1 / scale) # of the logarithm by the parameter itself
  se <- sqrt(diag(covariance)) * jacobian
  control <- list(fnscale = -1, parscale = se, ndeps = 1e-4 * se, maxit = 10000, reltol = 1e-16)
  set.seed(1)
  start <- theta + 0.02 * se * rnorm(length(se))
  end <- optim(start, function(q) parts(q)$value, function(q) parts(q)$grad, method = "BFGS", control = control)$par
  for (i in 1:3) end <- end - solve(optimHess(end, function(q) parts(q)$value, function(q) parts(q)$grad, control = control), parts(end)$grad)
  theirs <- -optimHess(theta, function(q) parts(q)$value, function(q) parts(q)$grad, control = control) * outer(jacobian, jacobian)
  sd <- sqrt(diag(covariance)); root <- sqrt(diag(theirs))
  ours <- solve(covariance / outer(sd, sd)) / outer(sd, sd)
  cat(sprintf("| %s | %s | %d | %d | %.4f | %.1e | %.1e | %.1e |\n", name, family, length(y), length(theta), fit$fit$log_likelihood,
              abs(parts(theta)$value - fit$fit$log_likelihood), max(abs(end - theta) / se), max(abs(ours - theirs) / outer(root, root))))
}
