# Rows in groups and in clusters: what is said of them is what the command says.

grouped <- function(n = 300, seed = 6) {
  set.seed(seed)
  d <- data.frame(id = rep(sprintf("clinic \"%d\"", seq_len(n / 5)), each = 5), x = rnorm(n), hours = runif(n, 1, 5))
  d$size <- rep(rnorm(n / 5), each = 5)
  first <- rep(runif(n / 5), each = 5) < plogis(1.5 * d$size)
  d$y <- ifelse(first, 1 + 0.8 * d$x, 0.3 - 0.6 * d$x) + 0.4 * rnorm(n)
  d$visits <- rpois(n, d$hours * exp(ifelse(first, 1 + 0.8 * d$x, 0.3 - 0.6 * d$x)))
  d
}

test_that("fits and predictions of rows in groups are the command's", {
  skip_without_command()
  d <- grouped()
  place <- tempfile()
  dir.create(place)
  on.exit(unlink(place, recursive = TRUE))
  data <- file.path(place, "rows.csv")
  write.csv(d, data, row.names = FALSE)
  for (formula in list(y ~ x | size, visits ~ x + offset(log(hours)) | size)) {
    family <- if (length(all.vars(formula)) == 3) "gaussian" else "poisson"
    fit <- quiet(moe(formula, d, k = 2, family = family, group = id))
    path <- file.path(place, "model.json")
    text <- gsub("\\s+", " ", paste(deparse(formula), collapse = ""))
    command("fit", data, "--formula", text, "--family", family, "--k", "2", "--group", "id", "-o", path, "--accept", "any")
    expect_lt(gap(as.numeric(logLik(fit)), read_moe(path)$file$fit$log_likelihood), 1e-9)
    expect_lt(abs(BIC(fit) / fit$file$fit$bic - 1), 1e-9)
    # some rows of groups that were seen, and some of new ones
    some <- d[c(1:7, 101:107), ]
    some$id[8:14] <- c("a", "a", "a", "b", "b", "b", "b")
    some$size[8:14] <- rep(some$size[c(8, 11)], 3:4)
    some$offset <- log(some$hours)
    write_moe(fit, path)
    said <- function(d) {
      rows <- file.path(place, "some.csv")
      write.csv(d, rows, row.names = FALSE)
      read(textConnection(command("predict", path, rows, "--interval", "0.9", "--quiet")))
    }
    target <- all.vars(formula)[1]
    want <- said(some[setdiff(names(some), target)]) # the command counts what targets say of new groups
    expect_lt(gap(predict(fit, some), want[[1]]), 1e-12)
    expect_lt(gap(predict(fit, some, "prob"), want[c("p1", "p2")]), 1e-12)
    expect_lt(gap(predict(fit, some, interval = "prediction", level = 0.9)[, 2:3], want[c("lower", "upper")]), 1e-9)
    expect_lt(gap(predict(read_moe(path), some, "prob"), want[c("p1", "p2")]), 1e-12)
    expect_lt(gap(predict(fit, some, "posterior"), said(some)[c("posterior1", "posterior2")]), 1e-12)
    without <- some[setdiff(names(some), "id")]
    expect_lt(gap(predict(fit, without, "prob")[8:14, ], want[8:14, c("p1", "p2")]), 1e-12)
    expect_equal(dim(simulate(fit, 2)), c(nrow(d), 2L))
    expect_error(estfun.moe(fit), "groups")
  }
})

test_that("the gate sees what is constant in groups", {
  skip_without_command()
  fit <- quiet(moe(y ~ x + size, grouped(), k = 2, group = id))
  expect_false(any(grepl("^gate1:x$", names(coef(fit)))))
  expect_true("gate1:size" %in% names(coef(fit)))
  expect_error(quiet(moe(y ~ x | x, grouped(), k = 2, group = id)), "varies within group clinic \"1\"", class = "moe_error")
})

test_that("errors by clusters are the command's, with their t law", {
  skip_without_command()
  d <- grouped()
  fit <- quiet(moe(y ~ x | size, d, k = 2, cluster = id))
  place <- tempfile()
  dir.create(place)
  on.exit(unlink(place, recursive = TRUE))
  write.csv(d, file.path(place, "rows.csv"), row.names = FALSE)
  command("fit", file.path(place, "rows.csv"), "--formula", "y ~ x | size", "--k", "2", "--cluster", "id", "-o",
          file.path(place, "model.json"), "--accept", "any")
  want <- read_moe(file.path(place, "model.json"))
  expect_lt(gap(vcov(fit), vcov(want)), 1e-9)
  wide <- (confint(fit)["expert1:x", 2] - coef(fit)["expert1:x"]) / sqrt(vcov(fit)["expert1:x", "expert1:x"])
  expect_equal(unname(wide), qt(0.975, 59), tolerance = 1e-9)
  skip_if_not_installed("sandwich")
  plain <- quiet(moe(y ~ x | size, d, k = 2))
  expect_equal(unname(vcov(fit)), unname(sandwich::vcovCL(plain, d$id, type = "HC0")), tolerance = 1e-4)
})

test_that("shared coefficients are flexmix's", {
  skip_without_command()
  skip_if_not_installed("flexmix")
  data("betablocker", "fabricfault", package = "flexmix", envir = environment())
  fit <- quiet(moe(cbind(Deaths, Total - Deaths) ~ Treatment | 1, betablocker, k = 3, family = "binomial",
                   group = Center, shared = "Treatment"))
  expect_gt(as.numeric(logLik(fit)), -159.3606) # the value that flexmix's documentation prints, to its digits
  slopes <- coef(fit)[grepl("TreatmentTreated", names(coef(fit)))]
  expect_equal(unname(slopes), rep(slopes[[1]], length(slopes)))
  expect_equal(attr(logLik(fit), "df"), 6)
  fit <- quiet(moe(Faults ~ log(Length) | 1, fabricfault, k = 2, family = "poisson", shared = "log(Length)"))
  expect_gt(as.numeric(logLik(fit)), -86.3312)
  one <- quiet(moe(Faults ~ log(Length) | 1, fabricfault, k = 2, family = "poisson", shared = "1"))
  expect_equal(attr(logLik(one), "df"), 4)
  expect_error(moe(Faults ~ log(Length) | 1, fabricfault, k = 2, shared = "Lenght"), "no term Lenght; there are 1, log\\(Length\\)")
})
