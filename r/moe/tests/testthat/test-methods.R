fit_of <- function(...) quiet(moe(y ~ x1 + x2 + x3 | x1, mixture(), k = 2, noise = "per-expert", ...))

test_that("estimates, errors and intervals have the same names", {
  skip_without_command()
  fit <- fit_of()
  v <- vcov(fit)
  expect_equal(rownames(v), names(coef(fit)))
  expect_equal(unname(sqrt(diag(v))), moe:::parameters_of(fit)$error, tolerance = 1e-12)
  expect_equal(vcov(fit, "gate"), v[grep("^gate", rownames(v)), grep("^gate", rownames(v))])
  ci <- confint(fit, level = 0.9)
  expect_equal(rownames(ci), names(coef(fit)))
  expect_equal(colnames(ci), c("5 %", "95 %"))
  expect_equal(confint(fit, "sigma1"), confint(fit)["sigma1", , drop = FALSE])
  interval <- fit$file$standard_errors$sigma_interval # of 95 %, by the command
  expect_equal(unname(confint(fit)[c("sigma1", "sigma2"), ]), unname(interval), tolerance = 1e-6)
  expect_equal(as.data.frame(tidy(fit, conf.int = TRUE))$conf.low, unname(confint(fit)[, 1]))
})

test_that("experts that may be one have no standard errors, and the others have", {
  skip_without_command()
  set.seed(4)
  d <- data.frame(a = rnorm(300), b = rnorm(300))
  d$y <- ifelse(runif(300) < .5, 1 + d$a, -1 - d$b) + .3 * rnorm(300)
  fit <- quiet(moe(y ~ a + b | 1, d, k = 3, noise = "per-expert"))
  expect_match(fit$file$fit$warnings, "expert 3 has no standard errors", all = FALSE)
  without <- grepl("^(expert3|gate|sigma3)", names(coef(fit)))
  expect_identical(unname(is.na(diag(vcov(fit)))), without)
  expect_identical(unname(is.na(confint(fit)[, 1])), without)
  expect_false(anyNA(predict(fit, d[1:5, ], interval = "confidence")))
})

test_that("scores are the derivatives of the log-likelihood, of flat gates and of trees", {
  skip_without_command()
  d <- mixture(noise = 0)
  d$y <- 1 + 2 * tanh(d$y) + 0.1 * sin(1e3 * seq_along(d$y))
  for (fit in list(fit_of(), quiet(moe(y ~ x1 + x2 + x3, mixture(), hierarchy = "2x(1,2)")),
                  quiet(moe(y ~ x1 + x2 + x3, d, k = 2, activation = "tanh", output_scale = "shared")))) {
    m <- fit$says
    rows <- moe:::fit_rows(fit)
    got <- moe:::estfun.moe(fit)
    labels <- m$uncertain$labels
    # At a maximum of the likelihood they sum to 0.
    if (is.null(fit$file$penalised)) expect_lt(max(abs(colSums(got))), 1e-3 * sqrt(nrow(got)))
    h <- 1e-5
    for (a in seq_len(nrow(labels))) {
      moved <- function(by) {
        n <- m
        i <- labels$index[a]
        all <- if (i == 0) seq_len(m$k) else i
        j <- labels$feature[a]
        add <- function(part) n[[part]][i] <<- n[[part]][i] + by
        add_to <- function(part) n[[part]][i, j] <<- n[[part]][i, j] + by
        switch(labels$part[a],
          expert = if (is.na(j)) add("intercepts") else add_to("regressors"),
          gate = if (is.na(j)) add("gating_intercepts") else add_to("gating"),
          sigma = n$own$sigma[all] <- n$own$sigma[all] + by,
          offset = n$offset[all] <- n$offset[all] + by,
          scale = n$scale[all] <- n$scale[all] + by)
        moe:::log_density_of(n, rows, fit$y)
      }
      # Differences of second order with h = 1e-5: h^2 of a third derivative of up to 1e4, and 1e-16/h of rounding.
      expect_equal(unname(got[, a]), (moved(h) - moved(-h)) / (2 * h), tolerance = 1e-4)
    }
  }
})

test_that("sandwich's covariance is the command's robust one, weighted too", {
  skip_without_command()
  skip_if_not_installed("sandwich")
  d <- mixture()
  d$w <- rep(1:2, 200)
  plain <- moe(y ~ x1 + x2 + x3 | x1, d, k = 2)
  robust <- update(plain, errors = "robust")
  expect_equal(sandwich::sandwich(plain), vcov(robust), tolerance = 1e-6)
  expect_equal(sandwich::sandwich(update(plain, weights = w)), vcov(update(robust, weights = w)), tolerance = 1e-6)
})

test_that("residuals are what they are called", {
  skip_without_command()
  fit <- fit_of()
  expect_equal(residuals(fit), fit$y - fitted(fit), ignore_attr = TRUE)
  draws <- simulate(fit, 2000, seed = 1)
  expect_equal(draws, simulate(fit, 2000, seed = 1))
  rows <- moe:::fit_rows(fit)
  v <- moe:::variance_of(fit$says, rows)
  # 2000 draws of 400 rows: means within five standard errors (1 in 4,000 for 400 of them), and the sd of all
  # standardised draws, whose standard error is some 0.002.
  expect_lt(max(abs(rowMeans(draws) - fitted(fit)) / sqrt(v / 2000)), 5)
  expect_equal(sd(unlist((draws - fitted(fit)) / sqrt(v))), 1, tolerance = 0.01)
  expect_equal(residuals(fit, "pearson"), residuals(fit) / sqrt(v))
  # F(y) of draws is uniform: Kolmogorov's statistic of 8000 of them, 1 in 16,000.
  p <- pnorm(unlist(lapply(1:20, function(j) {
    fit$y <- draws[[j]]
    residuals(fit, "quantile")
  })))
  expect_lt(max(abs(sort(p) - (seq_along(p) - 0.5) / length(p))), 2.3 / sqrt(length(p)))
})

test_that("the mean's interval is the delta method's, as lm's of one expert", {
  skip_without_command()
  d <- mixture()
  fit <- moe(y ~ x1 + x2, d, k = 1)
  l <- lm(y ~ x1 + x2, d)
  got <- predict(fit, d[1:5, ], interval = "confidence")
  want <- predict(l, d[1:5, ], se.fit = TRUE)$se.fit * sqrt(l$df.residual / nrow(d)) # sigma by maximum likelihood
  expect_equal(unname((got[, "upr"] - got[, "fit"]) / qnorm(0.975)), unname(want), tolerance = 1e-6)
  expect_error(predict(fit, type = "prob", interval = "confidence"), "leave it out")
  expect_error(predict(fit, interval = "prediction", level = 95), "level = 95: want probabilities")
})

test_that("types of predictions agree with each other", {
  skip_without_command()
  fit <- fit_of()
  expect_equal(rowSums(predict(fit, type = "prob") * predict(fit, type = "expert")), fitted(fit))
  expect_equal(predict(fit, type = "link"), predict(fit, type = "expert"))
  expect_equal(predict(fit, type = "posterior"), predict(fit, mixture(), type = "posterior"), tolerance = 1e-12)
  expect_equal(colnames(predict(fit, type = "quantile")), c("5%", "50%", "95%"))
  expect_error(predict(fit, mixture()[1:3], type = "posterior"), "y")
})

test_that("summaries and tables say what the file has", {
  skip_without_command()
  fit <- quiet(moe(y ~ x1 + x2 + x3 | x1, mixture(), k = 1:3))
  expect_output(print(fit), "2 experts \\(identity\\)")
  expect_output(print(summary(fit)), "Optimum: pass")
  expect_output(print(summary(fit)), "Gate: expert 1 against expert 2")
  expect_equal(summary(fit)$selection$k, 1:3)
  expect_equal(summary(fit)$selection$k[summary(fit)$selection$chosen], 2)
  g <- glance(fit)
  expect_equal(c(g$AIC, g$BIC), c(AIC(fit), BIC(fit)))
  expect_equal(tidy(fit)$estimate, unname(coef(fit)))
  a <- augment(fit)
  expect_equal(a$.resid, unname(residuals(fit)))
  expect_equal(a$.expert, max.col(predict(fit, type = "posterior")))
  expect_equal(augment(fit, newdata = mixture(5, 2))$.fitted, unname(predict(fit, mixture(5, 2))))
  expect_equal(family(fit)$family, "gaussian")
})

test_that("anova is the likelihood ratio, and refuses other numbers of experts", {
  skip_without_command()
  d <- mixture()
  large <- moe(y ~ x1 + x2 + x3 | x1, d, k = 2)
  small <- update(large, . ~ . - x3)
  of <- anova(small, large)
  expect_equal(of[2, "Chisq"], 2 * as.numeric(logLik(large) - logLik(small)), tolerance = 1e-8)
  expect_equal(of[2, "Chi Df"], 2)
  expect_equal(of[2, "Pr(>Chisq)"], pchisq(of[2, "Chisq"], 2, lower.tail = FALSE), tolerance = 1e-6)
  expect_error(anova(large, update(large, k = 1)), "numbers of experts differ")
  expect_error(anova(large), "want two fits")
})

test_that("pictures are drawn", {
  skip_without_command()
  d <- mixture()
  d$site <- factor(rep(c("a", "b"), 200))
  fit <- quiet(moe(y ~ x1 + x2 + site | x1, d, k = 1:2))
  pdf(NULL)
  on.exit(dev.off())
  for (which in c("experts", "gate", "residuals", "rootogram", "k")) expect_identical(plot(fit, which), fit)
  plot(fit, along = "x2")
  expect_error(plot(fit, along = "site"), "want a column of numbers")
  expect_error(plot(update(fit, k = 2), "k"), "want a range")
})

test_that("pictures of trials have shares", {
  skip_without_command()
  d <- mixture()
  d$n <- rep(c(5, 8, 12, 1), 100)
  d$yes <- round(d$n * plogis(d$y))
  d$no <- d$n - d$yes
  pdf(NULL)
  on.exit(dev.off())
  for (formula in list(cbind(yes, n - yes) ~ x1 | x1, cbind(yes, no) ~ x1 | x1)) {
    fit <- quiet(moe(formula, d, k = 2, family = "binomial"))
    plot(fit, "experts")
    expect_true(all(abs(par("usr")[3:4] - 0.5) <= 0.54 + 1e-9)) # from 0 to 1, and 4 % more to either side
  }
  expect_identical(drawn_label(fit), "yes / (yes + no)")
  fit$formula <- cbind(yes, n - yes) ~ x1 | x1
  expect_identical(drawn_label(fit), "yes / n")
  fit$formula <- counts ~ x1 | x1
  expect_identical(drawn_label(fit), "counts / trials")
  fit$trials <- NULL
  expect_identical(drawn_label(fit), "counts")
})

test_that("insight sees formula and parameters", {
  skip_without_command()
  skip_if_not_installed("insight")
  fit <- fit_of()
  of <- insight::find_formula(fit)
  expect_equal(of$conditional, y ~ x1 + x2 + x3, ignore_formula_env = TRUE)
  expect_equal(of$gate, ~x1, ignore_formula_env = TRUE)
  expect_equal(insight::get_parameters(fit)$Estimate, unname(coef(fit)))
  expect_equal(insight::get_parameters(fit, component = "gate")$Parameter, names(coef(fit, "gate")))
})

test_that("predict refuses arguments that it does not have, and quantiles take p and probs", {
  skip_without_command()
  fit <- quiet(moe(dist ~ speed, cars, k = 1))
  rows <- data.frame(speed = c(5, 10))
  want <- predict(fit, rows, "quantile", at = c(0.1, 0.2))
  expect_equal(colnames(want), c("10%", "20%"))
  expect_identical(predict(fit, rows, "quantile", p = c(0.1, 0.2)), want)
  expect_identical(predict(fit, rows, "quantile", probs = c(0.1, 0.2)), want)
  expect_error(predict(fit, rows, nosuch = 3), "unused argument (nosuch)", fixed = TRUE)
  expect_error(predict(fit, rows, se.fit = TRUE), "unused argument (se.fit)", fixed = TRUE)
  expect_error(predict(fit, rows, "quantile", "none", 0.9, 0.1, na.pass, 5), "unused argument (without a name)", fixed = TRUE)
})

test_that("sigma, degrees of freedom and AIC are lm's of one expert", {
  skip_without_command()
  fit <- quiet(moe(dist ~ speed, cars, k = 1))
  l <- lm(dist ~ speed, cars)
  expect_equal(sigma(fit), sigma(l) * sqrt(48 / 50), tolerance = 1e-8)
  expect_equal(df.residual(fit), df.residual(l) - 1) # of the noise
  expect_equal(extractAIC(fit), c(attr(logLik(l), "df"), AIC(l)), tolerance = 1e-8)
  expect_equal(extractAIC(fit, k = log(50))[2], BIC(l), tolerance = 1e-8)
  expect_length(sigma(fit_of()), 2)
  two <- fit_of()
  expect_equal(drop1(two, ~x3)["x3", "AIC"], AIC(update(two, . ~ . - x3)))
  expect_identical(sigma(quiet(moe(dist ~ speed, cars, k = 1, family = "poisson"))), NA_real_)
  expect_error(confint(fit, "Time"), "parm = Time: want names or numbers of expert1:speed, expert1:(intercept), sigma", fixed = TRUE)
  expect_error(confint(fit, 9), "parm = 9: want names")
  expect_equal(confint(fit, -1), confint(fit)[-1, ])
})

test_that("draws stand where the rows of na.exclude were", {
  skip_without_command()
  fit <- quiet(moe(Ozone ~ Wind + Temp, airquality, k = 1, na.action = na.exclude))
  draws <- simulate(fit, 2, seed = 1)
  expect_equal(dim(draws), c(153, 2))
  expect_identical(rownames(draws), names(fitted(fit)))
  expect_identical(unname(is.na(draws$sim_2)), unname(is.na(fitted(fit))))
  omitted <- simulate(update(fit, na.action = na.omit), 2, seed = 1)
  expect_equal(draws[!is.na(draws$sim_1), ], omitted, ignore_attr = "seed")
  expect_equal(dim(simulate(fit, 2, newdata = airquality[1:4, ])), c(4, 2))
})

test_that("na.pass leaves no missing value to a fit", {
  a <- airquality
  for (f in c(Ozone ~ Wind, Wind ~ Ozone, Temp ~ poly(Wind, 2) + log(Ozone)))
    expect_error(moe(f, a, k = 1, na.action = na.pass), "row 5 of .*Ozone.* is missing \\(NA\\): want na.action = na.omit")
})

test_that("print and summary have the warnings of the command's screen", {
  skip_without_command()
  fit <- moe(dist ~ speed, cars, k = 2)
  table <- tempfile(fileext = ".csv")
  write.csv(cars, table, row.names = FALSE)
  want <- grep("^Warning: ", command("fit", table, "--k", "2", "--intercept", "--target", "dist", "--seed", "1"), value = TRUE)
  expect_length(want, 2)
  want <- sub("--choose heldout", "choose = \"heldout\"", want, fixed = TRUE)
  expect_equal(paste0("Warning: ", summary(fit)$warnings, "."), want)
  for (x in list(fit, summary(fit))) {
    said <- gsub(" +", " ", paste(capture.output(print(x)), collapse = " "))
    for (line in want) expect_match(said, line, fixed = TRUE)
  }
  expect_length(summary(fit_of())$warnings, 0)
  of <- function(texts, kinds, ...) moe:::warnings_of(list(file = list(fit = list(warnings = texts, warning_kinds = kinds, ...))))
  expect_equal(of(letters[1:5], c("larger k", "new rows", "new rows", "gate", "starts")), c("e", "b", "d", "a", "c"))
  expect_equal(of(letters[1:5], c("larger k", "k too large", "gate", "", "target")), c("e", "b", "c", "d"))
  expect_match(of(NULL, NULL, separation = list(1)), "separates")
  fit$file$fit$warnings <- letters[1:5]
  fit$file$fit$warning_kinds <- rep("gate", 5)
  expect_output(print(fit), "Warning: c.\n2 more: summary()", fixed = TRUE)
})

test_that("what the command says to try is said as arguments", {
  say <- moe:::arguments
  expect_equal(say("--robust"), "errors = \"robust\"")
  expect_equal(say("--noise per-expert"), "noise = \"per-expert\"")
  expect_equal(say("--starts 64, or --output-scale shared"), "starts = 64, or output_scale = \"shared\"")
  expect_equal(say("--formula 'y ~ x | x + I(x^2)'"), "formula = y ~ x | x + I(x^2)")
  expect_equal(say("--k 1:6"), "k = 1:6")
  expect_equal(say("told apart; --drop x1"), "told apart; a table without x1")
  expect_equal(say("see --starts"), "see starts")
  expect_equal(say("--zero-expert"), "zero_expert = TRUE")
})
