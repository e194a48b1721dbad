#' A function of R's as an activation
#'
#' The command cannot call R. So a function becomes a table: a curve through its values, between whose points there is
#' a cubic with the function's slopes, and beyond them a line. `moe(activation = f)` does that; `tabulate_activation`
#' shows how well.
#'
#' On an interval of width h the error is at most h^4/384 of the largest fourth derivative; points are put where it is
#' large, up to 4000 of them.
#'
#' @param f a function of a vector, which returns one of the same length.
#' @param derivative its derivative likewise; by default from differences of f.
#' @param reach the largest |z| at which the curve follows f.
#' @param tolerance the error at which no further points are added.
#' @return A list of class `moe_curve`: `z`, `g` and `slopes`, and `error`, the largest difference from f within
#'   `reach`, relative to max(1, |f|): of three places between any two points, and of 20,000 others.
#' @examples
#' tabulate_activation(sin, cos)
#' @export
tabulate_activation <- function(f, derivative = NULL, reach = 40, tolerance = 1e-9) {
  values <- function(of, z) {
    out <- as.double(of(z))
    if (length(out) != length(z))
      refuse("the activation returns ", length(out), " values for ", length(z), "; want a function of a vector")
    if (any(bad <- !is.finite(out)))
      refuse("the activation is ", out[bad][1], " at z = ", z[bad][1], ": want numbers for |z| <= ", reach)
    out
  }
  slopes <- function(z) {
    if (!is.null(derivative)) return(values(derivative, z))
    # Differences of fourth order, within half of the way to the neighbours.
    gap <- diff(c(-Inf, z, Inf))
    h <- pmin(1e-3 * pmax(1, abs(z)), gap[-1], gap[-length(gap)]) / 4
    n <- length(z)
    d <- h[-c(1, n)]
    mid <- z[-c(1, n)]
    near <- values(f, mid + d) - values(f, mid - d)
    far <- values(f, mid + 2 * d) - values(f, mid - 2 * d)
    # Of the ends from inside: beyond them the curve goes on as it came, and a jump there is not its way.
    end <- function(at, d) {
      within <- values(f, at + d * 1:5)
      sum((within - within[1]) * c(-77, 214, -234, 122, -25) / 12) / d # of a constant it is 0 exactly
    }
    c(end(z[1], h[1] / 4), (8 * near - far) / (12 * d), end(z[n], -h[n] / 4))
  }
  errors <- function(z) {
    exact <- values(f, z)
    abs(curve_through(at, g, slope)(z)$g - exact) / pmax(1, abs(exact))
  }
  at <- seq(-reach, reach, length.out = 161)
  repeat {
    g <- values(f, at)
    slope <- slopes(at)
    width <- diff(at)
    left <- at[-length(at)]
    error <- pmax(errors(left + width / 4), errors(left + width / 2), errors(left + 3 * width / 4))
    # Narrower than this is a kink, or a jump. The worst are halved first.
    wide <- ifelse(width > 1e-8 * pmax(1, abs(at[-1])), error, 0)
    worst <- order(-wide)[seq_len(min(length(wide), max(0, 4000 - length(at))))]
    worst <- worst[wide[worst] > max(tolerance, max(wide) / 16)]
    if (!length(worst)) break
    at <- sort(c(at, left[worst] + width[worst] / 2))
  }
  # Van der Corput's places: no random numbers.
  between <- errors(reach * (2 * ((seq_len(20000) * (sqrt(5) - 1) / 2) %% 1) - 1))
  structure(list(z = at, g = g, slopes = slope, error = max(error, between), reach = reach), class = "moe_curve")
}

#' @export
print.moe_curve <- function(x, ...) {
  cat(sprintf("A curve through %d points for |z| <= %g; its error is at most %.2g, relative to max(1, |g|).\n",
              length(x$z), x$reach, x$error))
  invisible(x)
}

# Refuses a curve that the command takes for no table, and warns where it does not follow the function of that name.
# Smooth functions have errors of 1e-9, kinks of 1e-6: a hundredth of g's range, or of 1 where that is less, has only
# what the points cannot follow.
check_curve <- function(curve, name) {
  large <- which(pmax(abs(curve$g), abs(curve$slopes)) > 1e12)
  if (length(large)) {
    at <- large[which.min(abs(curve$z[large]))]
    is <- abs(curve$g[at]) > 1e12
    known <- name %in% c("identity", "relu", "leakyrelu", "sigmoid", "tanh", "exp", "softplus", "probit")
    refuse("the activation ", name, if (nzchar(name)) " ", if (is) "is " else "has slope ",
           signif(if (is) curve$g[at] else curve$slopes[at], 3), " at z = ", signif(curve$z[at], 3),
           ": a function becomes a table for |z| <= ", curve$reach, ", with values and slopes within \u00b11e12; take ",
           if (known) sprintf('activation = "%s"', name) else 'an expression, such as activation = "expr: z^9"',
           ", or tabulate_activation(f, reach = ", floor(abs(curve$z[at])), ")")
  }
  if (curve$error > max(1e-9, 0.01 * min(1, diff(range(curve$g)))))
    warning("the curve of the activation ", name, if (nzchar(name)) " ", "is off by up to ", signif(curve$error, 2),
            " of max(1, |g|): it jumps, or wiggles faster than a table's points follow; predictions near such z are off by as much",
            call. = FALSE)
}

# The activation as the command takes it, written to a place where it is a curve, and the curve's error. said is how the
# caller wrote it.
prepare <- function(activation, place, said = NULL) {
  if (is.null(activation)) return(list(config = NULL))
  if (is.function(activation)) activation <- tabulate_activation(activation)
  if (inherits(activation, "moe_curve")) {
    check_curve(activation, if (is.symbol(said)) as.character(said) else "")
    path <- file.path(place, "curve.csv")
    lines <- sprintf("%.17g,%.17g,%.17g", activation$z, activation$g, activation$slopes)
    writeLines(c("z,g,dg", lines), path)
    return(list(config = list(name = paste0("table:", path)), error = activation$error))
  }
  if (is.list(activation)) {
    params <- activation[setdiff(names(activation), "name")]
    return(list(config = c(list(name = activation$name), if (length(params)) list(params = params))))
  }
  if (!is.character(activation) || length(activation) != 1)
    refuse("activation: want a name, a list with name and parameters, or a function")
  list(config = list(name = activation))
}

#' Whether the guarantees hold for an activation
#'
#' Asks `moe validate-activation` whether moments of the data determine the regressors, for a nonlinearity.
#'
#' @param f as `activation` of [moe()]: a name, a list, a function or a curve.
#' @param sigma level of the noise.
#' @return What `moe validate-activation --json` prints, as a list: `valid`, and why; with `curve_error` of a function.
#' @examplesIf moe_available()
#' validate_activation(function(z) z * plogis(z))$valid
#' @export
validate_activation <- function(f, sigma = 0.05) {
  place <- tempfile("moe-")
  dir.create(place)
  on.exit(unlink(place, recursive = TRUE))
  made <- prepare(f, place, substitute(f))
  params <- made$config$params
  args <- c("validate-activation", made$config$name, "--json", "--sigma", sprintf("%.17g", sigma))
  for (name in names(params)) args <- c(args, "--param", sprintf("%s=%.17g", name, params[[name]]))
  out <- fromJSON(run(args, accept = 0:1))
  if (!is.null(made$error)) out$curve_error <- made$error
  out
}
