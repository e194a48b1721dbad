# Formulas of two parts, y ~ experts | gate.

# The parts of a formula: y ~ experts, and y ~ gate; the gate sees what the experts do where there is no bar.
parts <- function(formula) {
  if (!inherits(formula, "formula") || length(formula) != 3)
    refuse("formula: want target ~ experts' terms, and the gate's after a bar: y ~ x1 + site | x1")
  right <- formula[[3]]
  bar <- is.call(right) && identical(right[[1]], as.name("|"))
  part <- function(term) {
    out <- formula
    out[[3]] <- term
    out
  }
  if (bar && is.call(right[[2]]) && identical(right[[2]][[1]], as.name("|")))
    refuse("formula: one bar, between the experts' terms and the gate's")
  experts <- part(if (bar) right[[2]] else right)
  gate <- part(if (bar) right[[3]] else right)
  both <- if (bar) part(call("+", right[[2]], right[[3]])) else formula
  list(experts = experts, gate = gate, both = both, bar = bar)
}

# Design matrices of a model frame: of the experts and the gate, without their intercepts. Columns of the gate that have
# the names of the experts' and other values, as of other contrasts, get names of their own: these are `clash`.
designs <- function(terms, frame, contrasts = list(), clash = NULL) {
  of <- function(part) {
    x <- model.matrix(delete.response(terms[[part]]), frame, contrasts.arg = contrasts[[part]])
    made <- attr(x, "contrasts")
    keep <- attr(x, "assign") != 0
    structure(x[, keep, drop = FALSE], contrasts = made, intercept = any(!keep),
              term = attr(terms[[part]], "term.labels")[attr(x, "assign")[keep]])
  }
  experts <- of("experts")
  gate <- of("gate")
  if (is.null(clash)) {
    clash <- intersect(colnames(gate), colnames(experts))
    clash <- clash[vapply(clash, function(name) any(gate[, name] != experts[, name]), NA)]
  }
  of_clash <- colnames(gate) %in% clash
  colnames(gate)[of_clash] <- paste(colnames(gate)[of_clash], "(gate)")
  structure(list(experts = experts, gate = gate), clash = clash)
}

# The columns of a matrix that are no linear combination of those before them (and of 1, with an intercept); lm's rule.
independent <- function(x, weights) {
  whole <- if (attr(x, "intercept")) cbind(1, x) else x
  if (!is.null(weights)) whole <- whole[weights > 0, , drop = FALSE]
  q <- qr(whole, tol = 1e-7)
  kept <- sort(q$pivot[seq_len(q$rank)])
  if (attr(x, "intercept")) kept <- kept[kept > 1] - 1
  colnames(x)[kept]
}

# The columns of both matrices by name, each once.
joined <- function(x) {
  columns <- c(asplit2(x$experts), asplit2(x$gate))
  columns[!duplicated(names(columns))]
}

asplit2 <- function(x) setNames(lapply(seq_len(ncol(x)), function(j) unname(x[, j])), colnames(x))

#' The formula of a fit, and parts of it
#'
#' @param x a fit by [moe()].
#' @param part `"both"`, with the bar where it was given, or that of the `"experts"` or of the `"gate"`.
#' @param ... ignored.
#' @return A formula.
#' @export
formula.moe <- function(x, part = c("both", "experts", "gate"), ...) {
  part <- match.arg(part)
  if (is.null(x$formula)) refuse("a model that was read from a file has no formula of R's")
  if (part == "both") x$formula else parts(x$formula)[[part]]
}

#' Fit again with something changed
#'
#' As [stats::update()], and formulas by part: in `. ~ . + z | . - x1` each `.` stands for what was there. Without a bar
#' the gate's terms stay as they were, if they were given.
#'
#' @param object a fit by [moe()].
#' @param formula. the changes of the formula.
#' @param ... arguments of [moe()] in the place of those of the fit, such as `k = 3`.
#' @param evaluate whether to fit, or to return the call.
#' @return A fit by [moe()], or a call.
#' @examplesIf moe_available()
#' fit <- moe(dist ~ speed, cars, k = 1)
#' update(fit, . ~ . + I(speed^2) | speed)
#' @export
update.moe <- function(object, formula., ..., evaluate = TRUE) {
  call <- object$call
  if (!missing(formula.)) call$formula <- updated(object$formula, as.formula(formula.))
  extras <- match.call(expand.dots = FALSE)$...
  for (name in names(extras)) call[[name]] <- extras[[name]]
  if (evaluate) eval(call, parent.frame()) else call
}

updated <- function(old, new) {
  before <- parts(old)
  if (length(new) == 2) new <- as.formula(call("~", quote(.), new[[2]]), environment(new))
  after <- parts(new)
  out <- update.formula(before$experts, after$experts)
  if (!after$bar && !before$bar) return(out)
  gate <- if (after$bar) update.formula(before$gate, after$gate) else before$gate
  out[[3]] <- call("|", out[[3]], gate[[3]])
  out
}
