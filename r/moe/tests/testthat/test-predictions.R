# Predictions in R against those of the command, from the same file.
#
# Both sum some ten terms of size 1 to 100 in double precision, in other orders: 1e-12 of the values' size is a hundred
# roundings and more. The command finds quantiles to 14 digits: 1e-9.

tree <- c("--hierarchy", "2x(1,2)", "--intercept")
both <- c("--k", "2", "--intercept")
models <- list(
  linear = list(both),
  "three, per expert" = list(c("--k", "3", "--intercept", "--noise", "per-expert")),
  "no intercepts" = list(c("--k", "2")),
  "constant gate" = list(c("--k", "2", "--intercept", "--gate", "constant")),
  one = list(c("--k", "1", "--intercept")),
  relu = list(c(both, "--activation", "relu")),
  leakyrelu = list(c(both, "--activation", "leakyrelu", "--param", "slope=0.3")),
  "softplus, scaled" = list(c(both, "--activation", "softplus", "--param", "beta=2", "--output-scale", "shared")),
  "probit, scaled" = list(c(both, "--activation", "probit", "--output-scale", "shared")),
  "tanh, scaled" = list(c(both, "--activation", "tanh", "--output-scale", "shared")),
  "sigmoid, scaled" = list(c(both, "--activation", "sigmoid", "--output-scale", "per-expert")),
  swish = list(c(both, "--activation", "expr: z*sigmoid(beta*z)", "--param", "beta=1.5")),
  words = list(c(both, "--activation", "expr: where(z < 0 or not z <= 9, -0.1*abs(z)^1.5, max(z, z^2/9) - erf(-z)/3)")),
  table = list(c(both, "--activation", "table:curve.csv")),
  tree = list(tree),
  "tree, leaves" = list(c(tree, "--leaves", "identity,relu,tanh")),
  factor = list(c("--formula", "y ~ x1 * site + x2 | x1 + site", "--k", "2")),
  log = list(c("--formula", "log(y) ~ x1*x2 + poly(x3, 2) | x1 + exp(x2/3)", "--k", "2"), exp),
  sqrt = list(c("--formula", "sqrt(y) ~ x1 + I(x2^2)", "--k", "2"), function(y) (y + 9)^2),
  reciprocal = list(c("--formula", "1/y ~ x1 + x2", "--k", "2"), function(y) 1 / (abs(y) + 3)),
  robust = list(c(both, "--robust"))
)

for (name in names(models)) local({
  name <- name
  test_that(paste("predictions are the command's:", name), {
    skip_without_command()
    place <- tempfile()
    dir.create(place)
    old <- setwd(place)
    on.exit({
      setwd(old)
      unlink(place, recursive = TRUE)
    })
    d <- mixture()
    if (!is.null(of <- models[[name]][2][[1]])) d$y <- of(d$y)
    if (name == "factor") d <- cbind(site = rep(c("north", "south", "west"), length.out = nrow(d)), d)
    rows <- d[1:60, ]
    numbers <- c("x1", "x2", "x3")
    rows[numbers] <- 3 * rows[numbers] # beyond the rows of the fit too
    exactly <- function(d) as.data.frame(lapply(d, function(v) if (is.numeric(v)) sprintf("%.17g", v) else v))
    write.csv(exactly(d), "fit.csv", row.names = FALSE, quote = FALSE)
    write.csv(exactly(rows), "rows.csv", row.names = FALSE, quote = FALSE)
    z <- seq(-3, 3, length.out = 40)
    writeLines(c("z,g", sprintf("%.17g,%.17g", z, z + sin(z))), "curve.csv")
    command("fit", "fit.csv", models[[name]][[1]], "-o", "model.json", "--threads", "1", "--quiet")
    fit <- read_moe("model.json")
    levels <- c(0.5, 0.9, 0.999)
    want <- lapply(levels, function(level) {
      command("predict", "model.json", "rows.csv", "--interval", level, "--experts", "-o", "out.csv")
      read("out.csv")
    })
    first <- want[[1]]
    k <- seq_len(fit$says$k)
    mean <- if ("mean" %in% names(first)) "mean" else "median"
    expect_lt(gap(predict(fit, rows), first[mean]), 1e-12)
    expect_lt(gap(predict(fit, rows, "prob"), first[paste0("p", k)]), 1e-12)
    expect_lt(gap(predict(fit, rows, "posterior"), first[paste0("posterior", k)]), 1e-12)
    for (i in seq_along(levels)) {
      ends <- predict(fit, rows, interval = "prediction", level = levels[i])[, c("lwr", "upr")]
      got <- as.matrix(want[[i]][c("lower", "upper")])
      expect_equal(is.na(unname(ends)), is.na(unname(got)))
      expect_lt(max(abs(unname(ends) - unname(got)), na.rm = TRUE), 1e-9 * max(abs(d$y), abs(got), na.rm = TRUE))
    }
    evaluated <- command("evaluate", "model.json", "rows.csv", "--json", "--quiet")
    evaluated <- jsonlite::fromJSON(paste(evaluated, collapse = ""))
    density <- sum(moe:::log_density_of(fit$says, moe:::file_rows(fit, rows, identity, TRUE)$rows, rows$y))
    expect_equal(density, evaluated$log_likelihood, tolerance = 1e-11)
  })
})

test_that("a quantile is one: F there is the probability", {
  set.seed(1)
  w <- matrix(rgamma(6000, 0.5), 2000)
  w <- w / rowSums(w)
  m <- matrix(100 * rnorm(6000), 2000)
  s <- matrix(exp(3 * rnorm(6000)), 2000)
  for (q in c(1e-9, 0.01, 0.5, 0.97)) {
    y <- moe:::normal_quantile(w, m, s, q)
    f <- rowSums(w * pnorm((y - m) / s))
    slope <- rowSums(w * dnorm((y - m) / s) / s)
    # The rounding of y moves F by its density times 2^-52 of y.
    expect_true(all(abs(f - q) <= 1e-12 * q + 8 * 2^-52 * (slope * abs(y) + 1e-4)))
  }
})

test_that("derivatives of activations are those of differences", {
  z <- seq(-3.25, 3.35, length.out = 41) # not at the kinks
  texts <- c("z^2 - 2^-z", "where(z < 0 or not z <= 9, -0.1*abs(z)^1.5, max(z, z^2/9) - erf(-z)/3)",
             "Phi(z)*softplus(b*z)", "tanh(z)/(1 + cosh(z)) - cbrt(z) + atan(z)*sinh(z/3)",
             "log1p(exp(z)) + sqrt(z*z + 1) + expm1(-z) + erfc(z)", "min(sigmoid(z), 0.5) + sign(z)*log(2 + z^2)",
             "-z^2 + +b")
  for (text in texts) {
    at <- moe:::expression_from(text, list(b = 1.3))
    # The difference of fourth order with h = 1e-3 is off by h^4/30 of the fifth derivative: 1e5 of cbrt at 0.05.
    h <- 1e-3
    slope <- (8 * (at(z + h)$g - at(z - h)$g) - at(z + 2 * h)$g + at(z - 2 * h)$g) / (12 * h)
    expect_lt(max(abs(at(z)$dg - slope) / pmax(1, abs(slope))), 1e-6, label = text)
  }
  expect_error(moe:::expression_from("system('ls')", list())(1), "not of the language")
  expect_error(moe:::expression_from("f()", list())(1), "not of the language")
  expect_equal(moe:::expression_from("where(1 < 2, z, 3)", list())(1:3), list(g = 1:3, dg = c(1, 1, 1)))
})
