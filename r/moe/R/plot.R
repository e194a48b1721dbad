#' Pictures of a fit
#'
#' @param x a fit by [moe()].
#' @param which `"experts"`: the target and the experts' means over a column, rows in the colour of their expert, of
#'   successes and failures the shares of successes;
#'   `"gate"`: the probabilities over it; `"residuals"`: a normal plot of the quantile residuals; `"rootogram"`: square
#'   roots of how many rows there are in classes of the target, beside those expected; `"k"`: BIC by the number of
#'   experts.
#' @param along the column on the horizontal axis; by default the first of the formula that is a number.
#' @param ... of [graphics::plot()].
#' @return The fit, invisibly.
#' @examplesIf moe_available()
#' plot(moe(dist ~ speed, cars, k = 2, noise = "per-expert"))
#' @export
plot.moe <- function(x, which = c("experts", "gate", "residuals", "rootogram", "k"), along = NULL, ...) {
  which <- match.arg(which)
  switch(which, experts = , gate = plot_along(x, which, along, ...), residuals = plot_residuals(x, ...),
         rootogram = plot_rootogram(x, ...), k = plot_k(x, ...))
  invisible(x)
}

colours <- function(k) grDevices::hcl.colors(max(k, 2), "Dark 3")[seq_len(k)]

# Over one column the others are at their median, or at their commonest level.
plot_along <- function(x, which, along, ...) {
  raw <- all.vars(delete.response(x$terms$both))
  data <- if (is.null(x$call$data)) x$model else eval(x$call$data, environment(x$formula))
  raw <- raw[raw %in% names(data)]
  numbers <- raw[vapply(raw, function(name) is.numeric(data[[name]]) && is.null(dim(data[[name]])), NA)]
  if (is.null(along)) along <- numbers[1]
  if (!along %in% numbers) refuse("along = ", along, ": want a column of numbers of the formula")
  rows <- match(rownames(x$model), rownames(data))
  typical <- lapply(data[raw], function(v) {
    if (is.numeric(v)) return(median(v[rows], na.rm = TRUE))
    v[rows][which.max(tabulate(match(v[rows], v[rows])))]
  })
  at <- data[[along]][rows]
  grid <- seq(min(at, na.rm = TRUE), max(at, na.rm = TRUE), length.out = 200)
  typical[[along]] <- grid
  grid_data <- as.data.frame(typical)
  colour <- colours(x$says$k)
  if (which == "gate") {
    matplot(grid, predict(x, grid_data, type = "prob"), type = "l", lty = 1, lwd = 2, col = colour, ylim = 0:1,
            xlab = along, ylab = "P(expert | x)", ...)
  } else {
    plot(at, x$y / tried(x), xlab = along, ylab = drawn_label(x), pch = 20,
         col = colour[max.col(posterior_of(x$says, fit_rows(x), x$y))], ...)
    matplot(grid, predict(x, grid_data, type = "expert"), type = "l", lty = 1, lwd = 2, col = colour, add = TRUE)
  }
  legend("topright", classes_of(x$says), col = colour, lwd = 2, bty = "n")
}

# The target as a picture has it: successes as shares of their trials, which the formula has as cbind(yes, n - yes), as
# cbind(yes, no), or as a matrix.
drawn_label <- function(x) {
  if (is.null(x$trials)) return(target_label(x$formula))
  of <- x$formula[[2]]
  if (!is.call(of) || !identical(of[[1]], quote(cbind)) || length(of) != 3)
    return(paste(target_label(x$formula), "/ trials"))
  yes <- of[[2]]
  no <- of[[3]]
  rest <- is.call(no) && length(no) == 3 && identical(no[[1]], quote(`-`)) && identical(no[[3]], yes)
  paste(deparse1(yes), "/", deparse1(if (rest) no[[2]] else call("(", call("+", yes, no))))
}

plot_residuals <- function(x, ...) {
  r <- residuals_of(x, "quantile")
  stats::qqnorm(r, main = "", ylab = "quantile residuals", pch = 20, ...)
  abline(0, 1, lty = 2)
}

plot_rootogram <- function(x, ...) {
  m <- x$says
  rows <- fit_rows(x)
  w <- if (is.null(x$weights)) rep(1, length(x$y)) else x$weights
  discrete <- families[[m$family]]$discrete
  breaks <- if (discrete) seq(min(x$y), max(x$y) + 1) - 0.5 else pretty(x$y, 20)
  observed <- vapply(seq_along(breaks)[-1], function(i) sum(w[x$y > breaks[i - 1] & x$y <= breaks[i]]), 0)
  below <- vapply(breaks, function(b) {
    if (m$target_scale != "" && b <= 0) return(0)
    sum(w * cdf_of(m, rows, rep(b, length(w))))
  }, 0)
  expected <- diff(below)
  middle <- (breaks[-1] + breaks[-length(breaks)]) / 2
  plot(range(breaks), c(min(0, sqrt(expected) - sqrt(observed)), max(sqrt(expected))), type = "n", xlab = "target",
       ylab = "square root of rows", ...)
  rect(breaks[-length(breaks)], sqrt(expected) - sqrt(observed), breaks[-1], sqrt(expected), col = "grey80",
       border = "grey50")
  lines(middle, sqrt(expected), col = 2, lwd = 2, type = "b", pch = 20)
  abline(h = 0)
}

plot_k <- function(x, ...) {
  of <- selection_of(x)
  if (is.null(of)) refuse("one number of experts was asked for: want a range, such as k = 1:4")
  plot(of$k, of$bic, type = "b", xlab = "experts", ylab = "BIC", pch = ifelse(of$chosen, 19, 1), xaxt = "n", ...)
  axis(1, of$k)
}
