#' For sandwich and insight
#'
#' `estfun` has the derivatives of each row's log-likelihood by the parameters of [vcov()][vcov.moe()], and `bread` that
#' covariance by the number of rows, so that `sandwich::sandwich`, `vcovCL` and others of that package work. The
#' derivatives of a row of weight w are w times those of one row. So the w rows that it stands for are one observation
#' there, as for the robust errors of the command, which are the same.
#'
#' @param x a fit by [moe()].
#' @param ... ignored.
#' @return A matrix.
#' @name sandwich.moe
#' @examplesIf moe_available() && requireNamespace("sandwich", quietly = TRUE)
#' fit <- moe(dist ~ speed, cars, k = 1)
#' sandwich::sandwich(fit)
NULL

#' @rdname sandwich.moe
#' @exportS3Method sandwich::estfun
estfun.moe <- function(x, ...) {
  known(x)
  m <- x$says
  covariance <- vcov(x)
  if (m$target_scale != "") refuse("estfun: of models of y itself")
  if (!is.null(x$group)) refuse("estfun: rows in groups have no scores of their own")
  rows <- fit_rows(x)
  at <- experts_of(m, rows)
  posterior <- posterior_of(m, rows, x$y)
  by <- families[[m$family]]$slopes(x$y, at$mean, spread(m, rows), rows)
  out <- slopes(m, rows, at, posterior * by$mean, posterior - gate_of(m, rows), lapply(by[-1], `*`, posterior))
  if (!is.null(x$weights)) out <- out * x$weights
  dimnames(out) <- list(rownames(x$model), colnames(covariance))
  out
}

#' @rdname sandwich.moe
#' @exportS3Method sandwich::bread
bread.moe <- function(x, ...) vcov(x) * nrow(x$model)

#' @exportS3Method insight::find_formula
find_formula.moe <- function(x, verbose = TRUE, ...) {
  of <- function(part) formula(x, part)
  gate <- of("gate")[-2]
  structure(list(conditional = of("experts"), gate = gate), class = c("insight_formula", "list"))
}

#' @exportS3Method insight::get_parameters
get_parameters.moe <- function(x, component = c("all", "conditional", "gate"), ...) {
  of <- tidy.moe(x)
  component <- match.arg(component)
  kind <- sub("[0-9]*$", "", of$component)
  kind <- ifelse(kind == "gate", "gate", ifelse(kind == "expert", "conditional", "dispersion"))
  out <- data.frame(Parameter = names(coef(x)), Estimate = of$estimate, Component = kind)
  if (component == "all") out else out[out$Component == component, ]
}
