test_that("a fit by flexmix is where moe begins", {
  skip_without_command()
  skip_if_not_installed("flexmix")
  d <- mixture(200, 5)
  suppressMessages(requireNamespace("flexmix"))
  set.seed(1)
  peer <- flexmix::flexmix(y ~ x1 + x2 + x3, data = d, k = 2, concomitant = flexmix::FLXPmultinom(~x1))
  fit <- quiet(moe(y ~ x1 + x2 + x3 | x1, d, noise = "per-expert", start = peer))
  # What flexmix says of its own optimum is what our density says there: its gate's reference was moved. flexmix says it
  # of the parameters before its last step, which moves it by less than its tolerance of 1e-6.
  expect_equal(fit$start, as.numeric(flexmix::logLik(peer)), tolerance = 1e-6)
  expect_gte(as.numeric(logLik(fit)), fit$start)
  expect_equal(fit$says$k, 2)
  expect_true("own" %in% vapply(fit$file$fit$starts, `[[`, "", "kind"))
  expect_output(print(summary(fit)), "The start's log-likelihood")
  expect_error(moe(y ~ x1 + x2 | x1, d, start = peer), "flexmix has the term x3, the formula has not")
  constant <- flexmix::flexmix(y ~ x1 + x2 + x3, data = d, k = 2)
  again <- quiet(moe(y ~ x1 + x2 + x3 | 1, d, noise = "per-expert", start = constant))
  expect_equal(again$start, as.numeric(flexmix::logLik(constant)), tolerance = 1e-6)
})

test_that("other families, links and models are refused as starts", {
  skip_without_command()
  skip_if_not_installed("flexmix")
  d <- mixture(200, 5)
  d$n <- rpois(200, exp(0.3 * d$x1))
  set.seed(1)
  counts <- flexmix::flexmix(n ~ x1, data = d, k = 1, model = flexmix::FLXMRglm(family = "poisson"))
  expect_error(moe(n ~ x1, d, k = 1, start = counts), "flexmix's family is poisson, the fit's gaussian")
  expect_error(moe(n ~ x1, d, k = 1, start = 3), "want a fit by flexmix")
})

test_that("a fit begins where another ended", {
  skip_without_command()
  d <- mixture(200, 5)
  fit <- quiet(moe(y ~ x1 + x2, d, k = 2))
  again <- quiet(update(fit, start = fit, seed = 7))
  expect_gte(as.numeric(logLik(again)), as.numeric(logLik(fit)) - 1e-6)
})
