test_that("a function becomes a table whose error is the one that is stated", {
  skip_without_command()
  swish <- function(z) z * plogis(z)
  curve <- tabulate_activation(swish)
  z <- runif(1e5, -40, 40)
  set.seed(1)
  off <- abs(moe:::curve_through(curve$z, curve$g, curve$slopes)(z)$g - swish(z)) / pmax(1, abs(swish(z)))
  expect_lt(max(off), 2 * curve$error)
  expect_lt(curve$error, 1e-8)
  d <- mixture()
  d$y <- swish(d$y)
  by_table <- quiet(moe(y ~ x1 + x2 + x3, d, k = 2, activation = swish))
  by_text <- quiet(moe(y ~ x1 + x2 + x3, d, k = 2, activation = "expr: z*sigmoid(z)"))
  expect_equal(as.numeric(logLik(by_table)), as.numeric(logLik(by_text)), tolerance = 1e-6)
  expect_equal(by_table$activation_error, curve$error)
  expect_output(print(summary(by_table)), "The activation is a curve")
  expect_output(print(curve), "A curve through")
})

test_that("what is no function of a vector is refused", {
  expect_error(tabulate_activation(function(z) 1), "want a function of a vector")
  expect_error(quiet(tabulate_activation(log)), "want numbers for")
})

test_that("beyond its ends a curve goes on with the slope inside, also where the function jumps there", {
  far <- function(f, reach = 40) {
    curve <- tabulate_activation(f, reach = reach)
    moe:::curve_through(curve$z, curve$g, curve$slopes)(c(-100, 100))$g
  }
  expect_equal(far(floor), c(-40, 40), tolerance = 1e-9)
  expect_equal(far(function(z) z - 10 * floor(z / 10)), c(-60, 60), tolerance = 1e-5) # by a jump cells are 4e-7 wide
  expect_equal(tabulate_activation(function(z) sqrt(9 - z^2 / 2), reach = 3)$slopes[1], 1.5 / sqrt(4.5), tolerance = 1e-9)
})

test_that("a curve that does not follow is said, and one that is no table refused", {
  skip_without_command()
  expect_warning(said <- validate_activation(floor), "activation floor is off by up to 0.5")
  expect_gt(said$curve_error, 0.5)
  expect_warning(validate_activation(function(z) sin(100 * z)), "is off by up to")
  expect_warning(validate_activation(function(z) pmax(0, 10 * z - 5)), NA)
  expect_error(validate_activation(exp), 'activation exp is 1[.0-9e+]* at z = 27.* take activation = "exp"')
  expect_error(moe(dist ~ speed, cars, k = 1, activation = exp), 'activation exp is 1[.0-9e+]* at z = 27')
})

test_that("activations are judged as the command does", {
  skip_without_command()
  said <- validate_activation("leakyrelu")
  expect_true(said$valid)
  expect_equal(validate_activation(list(name = "leakyrelu", slope = 0.3))$activation$params$slope, 0.3)
  even <- validate_activation(function(z) z^2 / (1 + z^2 / 100))
  expect_false(even$signs_identifiable)
  expect_lt(even$curve_error, 1e-6)
})
