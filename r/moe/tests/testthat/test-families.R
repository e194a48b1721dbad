# Families: one expert is glm, densities are R's, and predictions are the command's.

counts <- function(n = 400, seed = 4) {
  set.seed(seed)
  d <- data.frame(x = rnorm(n), z = rnorm(n), hours = runif(n, 1, 5), size = sample(1:6, n, TRUE))
  first <- runif(n) < plogis(1.5 * d$z)
  eta <- ifelse(first, 1 + 0.8 * d$x, 0.3 - 0.6 * d$x)
  d$pois <- rpois(n, exp(eta))
  d$seen <- rpois(n, d$hours * exp(eta))
  d$nb <- rnbinom(n, 3, mu = exp(eta))
  d$gam <- rgamma(n, 4, 4 / exp(eta))
  d$yes <- rbinom(n, d$size, plogis(eta - 0.5))
  d$t <- eta + 0.3 * rt(n, 4)
  d
}

test_that("one expert is glm", {
  skip_without_command()
  d <- counts()
  same <- function(fit, g) {
    want <- coef(g)
    expect_equal(unname(coef(fit, "experts")[c(2, 1)]), unname(want), tolerance = 1e-6)
    expect_equal(as.numeric(logLik(fit)), as.numeric(logLik(g)), tolerance = 1e-9)
    expect_equal(fitted(fit), fitted(g), tolerance = 1e-6, ignore_attr = TRUE)
    expect_equal(predict(fit, d[1:5, ]), predict(g, d[1:5, ], type = "response"), tolerance = 1e-6)
    expect_equal(unname(sqrt(diag(vcov(fit)))[c(2, 1)]), unname(sqrt(diag(vcov(g)))), tolerance = 1e-5)
  }
  same(quiet(moe(pois ~ x, d, k = 1, family = "poisson")), glm(pois ~ x, poisson, d))
  same(quiet(moe(pois ~ x, d, k = 1, family = poisson())), glm(pois ~ x, poisson, d))
  same(quiet(moe(yes > 2 ~ x, d, k = 1, family = binomial())), glm(yes > 2 ~ x, binomial, d))
})

test_that("successes and failures are glm's, and so are their probabilities", {
  skip_without_command()
  skip_if_not(any(grepl("--trials", command("help", "fit"))), "the command has no trials")
  d <- within(datasets::esoph, {
    age <- as.integer(agegp)
    alc <- as.integer(alcgp)
  })
  for (link in c("logit", "probit")) {
    g <- glm(cbind(ncases, ncontrols) ~ age + alc, binomial(link), d)
    fit <- quiet(moe(cbind(ncases, ncontrols) ~ age + alc, d, k = 1, family = "binomial",
                     activation = c(logit = "sigmoid", probit = "probit")[[link]]))
    expect_lt(gap(as.numeric(logLik(fit)), as.numeric(logLik(g))), 1e-9)
    expect_lt(gap(predict(fit, d), predict(g, d, type = "response")), 1e-5)
  }
})

test_that("offsets are glm's, as terms and as an argument", {
  skip_without_command()
  skip_if_not(any(grepl("--offset", command("help", "fit"))), "the command has no offsets")
  d <- counts()
  g <- glm(seen ~ x + offset(log(hours)), poisson, d)
  for (fit in list(quiet(moe(seen ~ x + offset(log(hours)), d, k = 1, family = "poisson")),
                   quiet(moe(seen ~ x, d, k = 1, family = "poisson", offset = log(hours))))) {
    expect_equal(as.numeric(logLik(fit)), as.numeric(logLik(g)), tolerance = 1e-9)
    expect_equal(predict(fit, d[1:5, ]), predict(g, d[1:5, ], type = "response"), tolerance = 1e-6)
    expect_equal(fitted(fit), fitted(g), tolerance = 1e-6, ignore_attr = TRUE)
  }
})

fits_of <- function(d) list(
  poisson = quiet(moe(pois ~ x | z, d, k = 2, family = "poisson")),
  "negative-binomial" = quiet(moe(nb ~ x | z, d, k = 2, family = "negative-binomial")),
  gamma = quiet(moe(gam ~ x | z, d, k = 2, family = "gamma", noise = "per-expert")),
  binomial = quiet(moe(yes > 1 ~ x | z, d, k = 2, family = "binomial")),
  "student-t" = quiet(moe(t ~ x | z, d, k = 2, family = "student-t")))

test_that("the likelihood in R is the command's, scores its derivatives, and residuals those of the law", {
  skip_without_command()
  fits <- fits_of(counts())
  for (name in names(fits)) {
    fit <- fits[[name]]
    rows <- moe:::fit_rows(fit)
    value <- sum(moe:::log_density_of(fit$says, rows, fit$y))
    # Where a gate separates rows, as that of binomial here, the rows' model is the penalised one.
    penalised <- fit$file$penalised
    want <- if (is.null(penalised)) as.numeric(logLik(fit)) else penalised$log_likelihood
    expect_equal(value, want, tolerance = 1e-9, label = name)
    # At the maximum the scores add up to nothing, beside their size; those of penalised slopes to the penalty's.
    if (length(fit$file$covariance)) {
      s <- moe:::estfun.moe(fit)
      if (!is.null(penalised)) s <- s[, !grepl("^gate.:z$", colnames(s))]
      expect_lt(max(abs(colSums(s)) / sqrt(colSums(s^2))), 0.01, label = name)
    }
    # Uniform under the model, but for what was fitted: Kolmogorov's statistic, 1 in 16,000.
    set.seed(1)
    r <- residuals(fit, "quantile", randomised = TRUE)
    expect_lt(max(abs(sort(pnorm(r)) - ppoints(length(r)))), 2.3 / sqrt(length(r)), label = name)
    expect_equal(mean(rowMeans(simulate(fit, 50, seed = 1))), mean(predict(fit)), tolerance = 0.05, label = name)
  }
})

test_that("predictions of families are the command's", {
  skip_without_command()
  d <- counts()
  fits <- fits_of(d)
  for (name in names(fits)) {
    fit <- fits[[name]]
    place <- tempfile()
    dir.create(place)
    write_moe(fit, file.path(place, "m.json"))
    data <- d[c("x", "z")]
    data[[fit$file$target]] <- fit$y
    moe:::write_npy(data, file.path(place, "d.npy"))
    command("predict", file.path(place, "m.json"), file.path(place, "d.npy"), "--interval", "0.9", "-o",
            file.path(place, "p.csv"))
    want <- read(file.path(place, "p.csv"))
    expect_lt(gap(predict(fit), want["mean"]), 1e-12)
    expect_lt(gap(predict(fit, type = "prob"), want[c("p1", "p2")]), 1e-12)
    expect_lt(gap(predict(fit, type = "posterior"), want[c("posterior1", "posterior2")]), 1e-12)
    got <- predict(fit, interval = "prediction", level = 0.9)[, -1]
    expect_lt(gap(got, want[c("lower", "upper")]), 1e-9)
    # Beyond the rows of the fit the parameters say less of a mean than its law tells, and rules have more nodes.
    expect_false(is.null(fit$says$uncertain))
    far <- 3 * d[1:50, c("x", "z")]
    moe:::write_npy(far, file.path(place, "far.npy"))
    command("predict", file.path(place, "m.json"), file.path(place, "far.npy"), "--interval", "0.9", "-o",
            file.path(place, "far.csv"))
    got <- predict(fit, far, interval = "prediction", level = 0.9)[, -1]
    expect_lt(gap(got, read(file.path(place, "far.csv"))[c("lower", "upper")]), 1e-9)
  }
})

test_that("a zero expert is one class more of the gate", {
  skip_without_command()
  d <- counts()
  set.seed(9)
  d$calls <- ifelse(runif(nrow(d)) < plogis(d$z - 1), 0, d$nb)
  fit <- quiet(moe(calls ~ x | z, d, k = 1, family = "negative-binomial", zero_expert = TRUE))
  p <- predict(fit, d, "prob")
  expect_identical(colnames(p), c("expert1", "zero"))
  mean <- predict(fit, d, "expert")[, 1]
  theta <- coef(fit)[["theta"]]
  law <- p[, 1] * dnbinom(d$calls, theta, mu = mean) + p[, 2] * (d$calls == 0)
  expect_equal(sum(log(law)), as.numeric(logLik(fit)), tolerance = 1e-9)
  expect_equal(unname(predict(fit, d)), unname(p[, 1] * mean), tolerance = 1e-12)
  expect_equal(unname(predict(fit, d, "posterior")[, 2]), unname(p[, 2] * (d$calls == 0) / law), tolerance = 1e-9)
  expect_output(print(summary(fit)), "One expert and a zero expert.*Gate: expert 1 against the zero expert")
  expect_lt(abs(mean(as.matrix(simulate(fit, 100, seed = 1)) == 0) - mean(p[, 1] * dnbinom(0, theta, mu = mean) + p[, 2])), 0.02)
  scores <- estfun.moe(fit) # at the maximum they sum to nothing
  expect_lt(max(abs(colSums(scores)) / sqrt(colSums(scores^2))), 1e-3)
})

test_that("a link that is not finite is refused with one that is, and so is what the command did not write", {
  d <- counts(60)
  for (family in list(Gamma, inverse.gaussian)) expect_error(moe(gam ~ x, d, k = 1, family = family()), "log link")
  d$x[7] <- Inf
  expect_error(moe(gam ~ x, d, k = 1), "row 7 of x is Inf")
  expect_error(moe(gam ~ z, d[1, ], k = 1), "one row")
  skip_without_command()
  expect_error(moe:::run(c("help", "exit-codes"), accept = 0:1, wrote = tempfile()), class = "moe_error")
  expect_error(moe(gam ~ z, d, k = 1, family = "gamma", activation = "expr: 1/z"), "g must be finite")
})
