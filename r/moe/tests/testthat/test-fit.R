# One linear expert is lm: its matrices, estimates, likelihood and predictions are the oracle. Both solve the same least
# squares; 1e-8 leaves room for the command's convergence.

data_of <- function() {
  d <- mixture(200, 3)
  d$site <- factor(rep(c("a", "b", "c"), length.out = 200))
  d$dose <- factor(rep(1:4, each = 50), ordered = TRUE)
  d$yes <- d$x2 > 0
  d$m <- cbind(p = d$x1^2, q = d$x3)
  d$y <- d$y + as.integer(d$site) + 0.5 * d$yes
  d
}

formulas <- list(
  y ~ x1 + site, y ~ x1 * site, y ~ poly(x1, 2) + site:x3, y ~ splines::ns(x1, 3), y ~ splines::bs(x2, df = 4) + yes,
  y ~ dose + x1, y ~ m + x2, y ~ I(x1^2) + offset(x3), y ~ 0 + site + x1, y ~ log(abs(x1) + 1), y ~ x1 + I(2 * x1) + x2,
  y ~ . - m - dose - yes
)

test_that("one linear expert is lm", {
  skip_without_command()
  d <- data_of()
  new <- d[c(7, 3, 50), ]
  new$x1 <- new$x1 / 2
  for (f in formulas) {
    if (any(grepl("offset", deparse(f)))) next # the command has none yet
    l <- lm(f, d)
    fit <- quiet(moe(f, d, k = 1))
    want <- coef(l)[!is.na(coef(l))]
    names(want) <- paste0("expert1:", sub("(Intercept)", "(intercept)", names(want), fixed = TRUE))
    got <- coef(fit, "experts")
    expect_setequal(names(got), names(want))
    expect_equal(got[names(want)], want, tolerance = 1e-8)
    expect_equal(as.numeric(logLik(fit)), as.numeric(logLik(l)), tolerance = 1e-9)
    expect_equal(attr(logLik(fit), "df"), attr(logLik(l), "df"))
    expect_equal(c(AIC(fit), BIC(fit)), c(AIC(l), BIC(l)), tolerance = 1e-9)
    expect_equal(fitted(fit), fitted(l), tolerance = 1e-8)
    expect_equal(quiet(predict(fit, new)), quiet(predict(l, new)), tolerance = 1e-8)
    expect_equal(residuals(fit), residuals(l), tolerance = 1e-7)
  }
})

test_that("columns that depend on others are left out, as by lm", {
  skip_without_command()
  expect_warning(moe(y ~ x1 + I(2 * x1), data_of(), k = 1), "linear combinations of the others: I\\(2 \\* x1\\)")
})

test_that("weights are frequencies: of w rows", {
  skip_without_command()
  d <- data_of()
  d$w <- rep(0:3, 50)
  fit <- moe(y ~ x1 + site, d, k = 1, weights = w)
  long <- d[rep(seq_len(nrow(d)), d$w), ]
  l <- lm(y ~ x1 + site, long)
  expect_equal(nobs(fit), nobs(l))
  expect_equal(as.numeric(logLik(fit)), as.numeric(logLik(l)), tolerance = 1e-9)
  expect_equal(BIC(fit), BIC(l), tolerance = 1e-9)
  expect_equal(unname(coef(fit, "experts")), unname(coef(l)[c(2:4, 1)]), tolerance = 1e-8)
  expect_length(fitted(fit), 200)
})

test_that("weights that are none, and rows of which none is left, are named", {
  skip_without_command()
  d <- data_of()
  for (bad in c(-3, Inf)) {
    d$w <- c(1, 1, rep(bad, 50), rep(1, 148))
    expect_error(moe(y ~ x1, d, k = 1, weights = w), paste("weights: row 3 has", bad), fixed = TRUE)
  }
  d$w <- 0
  expect_error(moe(y ~ x1, d, k = 1, weights = w), "weights: all are 0")
  d$none <- NA
  d$no <- NA_character_
  for (f in list(y ~ x1 + none, none ~ x1, y ~ x1 + no))
    expect_error(moe(f, d, k = 1), "every value of no(ne)? is missing")
  d$x1[1:100] <- d$x2[101:200] <- NA
  expect_error(moe(y ~ x1 + x2, d, k = 1), "every row lacks a value, and none is left")
  expect_error(moe(y ~ x3, d, k = 1, subset = x3 > 100), "no row: data or subset have none")
})

test_that("subset and na.action are lm's", {
  skip_without_command()
  d <- data_of()
  d$x1[c(5, 9)] <- NA
  d$y[20] <- NA
  for (na in list(na.omit, na.exclude)) {
    l <- lm(y ~ x1 + site, d, subset = x2 > -1, na.action = na)
    fit <- moe(y ~ x1 + site, d, k = 1, subset = x2 > -1, na.action = na)
    expect_equal(fitted(fit), fitted(l), tolerance = 1e-8)
    expect_equal(residuals(fit), residuals(l), tolerance = 1e-7)
    expect_equal(predict(fit), predict(l), tolerance = 1e-8)
    expect_equal(nobs(fit), nobs(l))
  }
  expect_error(moe(y ~ x1, d, k = 1, na.action = na.fail), "missing values")
  new <- data.frame(x1 = c(1, NA, 2), site = c("a", "b", "c"))
  expect_equal(predict(fit, new), predict(l, new), tolerance = 1e-8)
})

test_that("rows that all lack a value are NA, and no rows have no predictions", {
  skip_without_command()
  d <- data_of()
  d$id <- rep(1:40, each = 5)
  l <- lm(y ~ x1 + site, d)
  path <- tempfile(fileext = ".json")
  write_moe(moe(y ~ x1 + x2, d, k = 2), path)
  fits <- list(moe(y ~ x1 + site, d, k = 1), quiet(moe(y ~ x1 + site, d, k = 2, group = id)), read_moe(path))
  for (fit in fits) for (n in c(0, 1, 3)) {
    new <- d[seq_len(n), ]
    new$x1 <- rep(NA_real_, n)
    expect_identical(predict(fit, new), predict(l, new))
    expect_identical(predict(fit, new, interval = "prediction"), predict(l, new, interval = "prediction"))
    expect_identical(predict(fit, new, interval = "confidence"), predict(l, new, interval = "confidence"))
    for (type in c("expert", "prob", "posterior", "link", "quantile")) {
      got <- predict(fit, new, type)
      beside <- predict(fit, rbind(d[10, ], new), type) # a row that lacks nothing, and these
      expect_identical(got, beside[-1, , drop = FALSE])
      expect_true(all(is.na(got)))
    }
    expect_equal(dim(simulate(fit, 2, newdata = new)), c(0, 2)) # such rows are left out
  }
  expect_true(is.na(augment(fits[[1]], newdata = new[1, ])$.fitted))
})

test_that("new levels are lm's error", {
  skip_without_command()
  d <- data_of()
  fit <- moe(y ~ x1 + site, d, k = 1)
  l <- lm(y ~ x1 + site, d)
  new <- data.frame(x1 = 1, site = "z")
  said <- function(x) tryCatch(predict(x, new), error = conditionMessage)
  expect_equal(said(fit), said(l))
})

test_that("contrasts are those that were asked for, and parts may have other ones", {
  skip_without_command()
  d <- data_of()
  l <- lm(y ~ x1 + site, d, contrasts = list(site = "contr.sum"))
  fit <- moe(y ~ x1 + site, d, k = 1, contrasts = list(site = "contr.sum"))
  expect_equal(unname(coef(fit, "experts")), unname(coef(l)[c(2:4, 1)]), tolerance = 1e-8)
  expect_equal(predict(fit, d[4:6, ]), predict(l, d[4:6, ]), tolerance = 1e-8)
  # site1 is a contrast of the experts and an indicator of the gate.
  levels(d$site) <- 1:3
  two <- quiet(moe(y ~ x1 + site | 0 + site, d, k = 2, contrasts = list(site = "contr.sum")))
  expect_true("gate1:site1 (gate)" %in% names(coef(two)))
  expect_equal(predict(two, d), predict(two), tolerance = 1e-12)
})

test_that("experts and gate have their own terms", {
  skip_without_command()
  d <- mixture()
  fit <- moe(y ~ x1 + x2 + x3 | x1, d, k = 2)
  expect_setequal(names(coef(fit, "gate")), c("gate1:x1", "gate1:(intercept)"))
  expect_equal(fit$formula, formula(fit))
  expect_equal(formula(fit, "gate"), y ~ x1, ignore_formula_env = TRUE)
  constant <- moe(y ~ x1 + x2 | 1, d, k = 2)
  expect_named(coef(constant, "gate"), "gate1:(intercept)")
  only <- quiet(moe(y ~ 1 | x1, d, k = 2))
  expect_setequal(names(coef(only, "experts")), c("expert1:(intercept)", "expert2:(intercept)"))
  # The truth is within four standard errors (1 in 16,000 each).
  truth <- c(2, 0, 1, 1, -1, 1, 0, 0)
  of <- moe:::parameters_of(fit)[1:8, ]
  if (of$estimate[1] < 0) truth <- truth[c(5:8, 1:4)]
  expect_true(all(abs(of$estimate - truth) < 4 * of$error))
})

test_that("names that the file cannot have are R's again afterwards", {
  skip_without_command()
  d <- mixture()
  d$`a'b"c` <- d$x1
  d$`back\`tick` <- d$x2
  fit <- moe(y ~ `a'b"c` + `back\`tick` + (x3 > 0), d, k = 1)
  l <- lm(y ~ `a'b"c` + `back\`tick` + (x3 > 0), d)
  expect_setequal(sub("^expert1:", "", names(coef(fit, "experts"))), sub("(I", "(i", names(coef(l)), fixed = TRUE))
  expect_equal(predict(fit, d), predict(l, d), tolerance = 1e-8)
})

test_that("update goes by part", {
  up <- moe:::updated
  same <- function(a, b) expect_equal(deparse(a), deparse(b))
  same(up(y ~ a | b, . ~ . + c | .), y ~ a + c | b)
  same(up(y ~ a | b, . ~ . | . - b + d), y ~ a | d)
  same(up(y ~ a | b, . ~ . + c), y ~ a + c | b)
  same(up(y ~ a, . ~ . + c), y ~ a + c)
  same(up(y ~ a, . ~ . | . + d), y ~ a | a + d)
  same(up(y ~ a, log(.) ~ . | 1), log(y) ~ a | 1)
})

test_that("the same seed is the same fit, and what is refused is one line", {
  skip_without_command()
  d <- mixture(100)
  a <- quiet(moe(y ~ x1 | 1, d, k = 2))
  b <- quiet(update(a, threads = 1))
  expect_equal(a$file[names(a$file) != "seconds"], b$file[names(b$file) != "seconds"])
  expect_error(moe(~x1, d), "want target ~")
  expect_error(moe(y ~ x1 | x2 | x3, d), "one bar")
  expect_error(moe(y ~ x1, d, k = 1.5), "k = 1.5: want a number of experts")
  expect_error(moe(y ~ x1, d, k = c(1, 3)), "want a number of experts, or a range")
  expect_error(moe(y ~ x1, d, k = 1, nosie = "shared"), "unknown key \"nosie\"; did you mean \"noise\"",
               class = "moe_error")
  expect_error(moe(y ~ x1, d, k = 1, formula2 = 1), "unknown key")
  expect_error(moe(y ~ x1, d, k = 1, foo = 3), "^unused argument \\(foo\\): unknown key")
  expect_error(moe(y ~ x1, d, k = 1, seed = -1), "^seed is the number -1")
  expect_error(moe(y ~ x1, d, k = 1, family = "poisson"), "^the data: row 1: the target is")
  expect_error(moe(y ~ x1, d, k = 1, features = "x1"), "moe\\(\\) says that itself")
  expect_error(moe(y ~ x1 | offset(x2), d, k = 2), "offset is of the experts")
  expect_error(moe(y ~ 1, d), "no column but intercepts")
  expect_error(moe(factor(y) ~ x1, d), "the target is of class factor")
  expect_error(moe(y ~ x1, d, family = quasipoisson()), "no likelihood")
  expect_error(moe(y ~ x1, d, activation = 3), "want a name")
})

test_that("a model goes to a file and comes back", {
  skip_without_command()
  fit <- moe(y ~ x1 + x2, mixture(), k = 2)
  path <- tempfile(fileext = ".json")
  write_moe(fit, path)
  back <- read_moe(path)
  expect_equal(predict(back, mixture(20, 9)), predict(fit, mixture(20, 9)), tolerance = 1e-12)
  expect_match(command("explain", path), "2 identity experts", all = FALSE)
  expect_error(predict(back), "want newdata")
  d <- data_of()
  write_moe(moe(y ~ x1 * site, d, k = 1), path)
  expect_error(predict(read_moe(path), d), "no column siteb; .*; want the columns of the file, .* of model.matrix: x1, siteb, sitec, ")
  made <- as.data.frame(model.matrix(~ x1 * site, d))
  expect_equal(predict(read_moe(path), made), predict(moe(y ~ x1 * site, d, k = 1), d), tolerance = 1e-12)
  expect_error(read_moe(tempfile()), "there is no such file")
  writeLines("{}", path)
  expect_error(read_moe(path), "no model's file")
})

test_that("trees and leaves of one's own", {
  skip_without_command()
  d <- mixture()
  fit <- quiet(moe(y ~ x1 + x2 + x3, d, hierarchy = "2x(1,2)", leaves = c("identity", "relu", "tanh")))
  expect_equal(fit$says$k, 3)
  place <- tempfile()
  dir.create(place)
  write_moe(fit, file.path(place, "m.json"))
  moe:::write_npy(d[c("x1", "x2", "x3")], file.path(place, "d.npy"))
  command("predict", file.path(place, "m.json"), file.path(place, "d.npy"), "-o", file.path(place, "p.csv"))
  expect_lt(gap(predict(fit, d), read(file.path(place, "p.csv"))["mean"]), 1e-12)
})
