#' Tidy, glance and augment
#'
#' Data frames with the columns that broom's tidiers have.
#'
#' @param x a fit by [moe()].
#' @param conf.int,conf.level whether there are intervals, and of which level.
#' @param data,newdata the rows: by default those of the fit.
#' @param ... ignored.
#' @return `tidy` has a row for each parameter: `component` is `expert1`, `gate1` or `sigma`, and `term` the column.
#'   `glance` has one row. `augment` has the rows with `.fitted`, `.resid` where the target is there, and `.expert`, the
#'   expert that is the most probable: given the target for rows of the fit, else by the gate.
#' @name tidy.moe
#' @examplesIf moe_available()
#' fit <- moe(dist ~ speed, cars, k = 1)
#' tidy(fit, conf.int = TRUE)
#' glance(fit)
NULL

#' @rdname tidy.moe
#' @method tidy moe
#' @export
tidy.moe <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  of <- parameters_of(x)
  names <- rownames(of)
  z <- of$estimate / of$error
  z[!grepl("^(expert|gate)", names)] <- NA
  out <- data.frame(component = sub(":.*", "", names), term = sub("^[^:]*:", "", names), estimate = of$estimate,
                    std.error = of$error, statistic = z, p.value = 2 * stats::pt(-abs(z), freedom(x)))
  if (conf.int) out[c("conf.low", "conf.high")] <- unname(confint(x, level = conf.level))
  out
}

#' @rdname tidy.moe
#' @method glance moe
#' @export
glance.moe <- function(x, ...) {
  fit <- x$file$fit
  said <- function(v) if (is.null(v)) NA_character_ else v
  data.frame(k = x$says$experts, family = x$family$family, logLik = fit$log_likelihood, AIC = fit$aic, BIC = fit$bic,
             df = df_of(x), nobs = nobs(x), converged = isTRUE(fit$converged), optimum = said(fit$certificate$optimum),
             model = said(fit$certificate$model))
}

#' @rdname tidy.moe
#' @method augment moe
#' @export
augment.moe <- function(x, data = model.frame(x), newdata = NULL, ...) {
  if (is.null(newdata)) {
    if (nrow(data) != nrow(x$model) && length(x$na.action)) data <- data[-x$na.action, , drop = FALSE]
    p <- posterior_of(x$says, fit_rows(x), x$y)
    data$.fitted <- unname(x$fitted.values)
    data$.resid <- unname(residuals_of(x, "response"))
  } else {
    data <- newdata
    data$.fitted <- unname(predict(x, newdata))
    y <- tryCatch(eval(formula(x)[[2]], newdata, environment(formula(x))), error = function(e) NULL)
    if (is.numeric(y) && length(y) == nrow(data)) data$.resid <- y - data$.fitted
    p <- predict(x, newdata, type = "prob")
  }
  data$.expert <- max.col(ifelse(is.na(p), -1, p), "first")
  data$.expert[is.na(data$.fitted)] <- NA
  data
}
