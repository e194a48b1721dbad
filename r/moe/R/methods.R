# Estimates, errors and criteria.

# Every parameter: label, estimate and standard error, in the order of the file's covariance.
parameters_of <- function(fit) {
  file <- fit$file
  m <- fit$says
  errors <- file$standard_errors
  seen <- file$covariance$parameters
  names <- character()
  values <- error <- numeric()
  add <- function(name, value, se) {
    names <<- c(names, name)
    values <<- c(values, value)
    error <<- c(error, if (length(se)) se else NA)
  }
  each <- function(part, matrix, intercepts, key, own) {
    of <- errors[[key]]
    if (!is.null(of)) of <- matrix(as.double(unlist(of)), nrow(matrix))
    for (i in seq_len(nrow(matrix))) {
      for (j in seq_len(ncol(matrix))) {
        name <- paste0(part, i, ":", file$features[j])
        se <- if (!is.null(of)) of[i, j]
        # Else it is 0 by the formula, or by a constant gate.
        if (matrix[i, j] != 0 || isTRUE(se != 0) || name %in% seen) add(name, matrix[i, j], se)
      }
      if (length(intercepts)) add(paste0(part, i, ":(intercept)"), intercepts[i], errors[[own]][i])
    }
  }
  several <- function(part, of, se) {
    for (i in seq_along(of)) add(paste0(part, if (length(of) > 1) i), of[i], if (i <= length(se)) se[i])
  }
  each("expert", m$regressors[seq_len(m$experts), , drop = FALSE], file$regressor_intercepts, "regressors", "regressor_intercepts")
  each("gate", m$gating, file$gating_intercepts, "gating", "gating_intercepts")
  if (!isTRUE(file$fit$sigma_given)) several("sigma", file$sigma, errors$sigma)
  for (part in names(file$own)) several(part, file$own[[part]], errors$own[[part]])
  for (part in c("offset", "scale")) if (!is.null(of <- file$output_scale[[part]])) {
    se <- errors$output_scale[[part]]
    if (length(se) || is.null(errors$output_scale)) several(part, of, se)
  }
  out <- data.frame(estimate = values, error = error, row.names = names)
  out$error[!is.na(out$error) & out$error == 0] <- NA # what has no standard error is 0 in the file
  rownames(out) <- shown_names(fit, names)
  out
}

# Labels with the columns' names as R has them.
shown_names <- function(fit, names) {
  column <- sub("^[^:]*:", "", names)
  own <- grepl(":", names, fixed = TRUE) & column %in% names(fit$columns)
  names[own] <- paste0(sub(":.*", "", names[own]), ":", fit$columns[column[own]])
  names
}

in_part <- function(names, part) {
  switch(part, full = rep(TRUE, length(names)), experts = startsWith(names, "expert"), gate = startsWith(names, "gate"))
}

#' Coefficients, covariance and intervals
#'
#' Names are those of the model's file, such as `expert1:x`, `gate1:(intercept)` and `sigma`. The gate is relative to
#' the last expert, whose coefficients are 0.
#'
#' @param object a fit by [moe()].
#' @param part `"full"`, or the parameters of the `"experts"` or of the `"gate"`.
#' @param parm names or numbers of parameters; by default all.
#' @param level of the intervals.
#' @param ... ignored.
#' @return `coef` returns a named vector, `vcov` a matrix, `NA` for experts that may be one, and `confint` a matrix with an interval in each row.
#'   Intervals are normal, or of a t law for errors by clusters; that of sigma is normal in its logarithm, around sigma corrected for degrees of freedom.
#' @examplesIf moe_available()
#' fit <- moe(dist ~ speed, cars, k = 1)
#' coef(fit)
#' confint(fit)
#' @export
coef.moe <- function(object, part = c("full", "experts", "gate"), ...) {
  of <- parameters_of(object)
  keep <- in_part(rownames(of), match.arg(part))
  setNames(of$estimate, rownames(of))[keep]
}

#' @rdname coef.moe
#' @export
vcov.moe <- function(object, part = c("full", "experts", "gate"), ...) {
  covariance <- object$file$covariance
  if (!length(covariance)) {
    why <- grep("no standard errors|covariance", c(object$file$fit$notes, object$file$fit$warnings), value = TRUE)
    refuse("the fit has no covariance: ", paste(c(why, "see summary()"), collapse = "; "))
  }
  names <- shown_names(object, covariance$parameters)
  out <- covariance$matrix
  dimnames(out) <- list(names, names)
  of <- parameters_of(object)
  without <- names %in% rownames(of)[is.na(of$error)]
  out[without, ] <- out[, without] <- NA
  keep <- in_part(names, match.arg(part))
  out[keep, keep, drop = FALSE]
}

#' @rdname coef.moe
#' @export
confint.moe <- function(object, parm, level = 0.95, ...) {
  probabilities(level, "level")
  of <- parameters_of(object)
  z <- stats::qt((1 + level) / 2, freedom(object))
  out <- cbind(of$estimate - z * of$error, of$estimate + z * of$error)
  sigma <- grep("^sigma[0-9]*$", rownames(of))
  corrected <- object$file$standard_errors$sigma_corrected
  centre <- if (is.null(corrected)) of$estimate[sigma] else corrected
  wide <- exp(z * of$error[sigma] / of$estimate[sigma])
  out[sigma, ] <- cbind(centre / wide, centre * wide)
  tails <- 100 * c(1 - level, 1 + level) / 2
  dimnames(out) <- list(rownames(of), paste(format(tails, trim = TRUE, digits = 3), "%"))
  if (missing(parm)) return(out)
  unknown <- if (is.character(parm)) !parm %in% rownames(out) else !abs(parm) %in% seq_len(nrow(out))
  if (any(unknown))
    refuse("parm = ", parm[unknown][1], ": want names or numbers of ", paste(rownames(out), collapse = ", "))
  out[parm, , drop = FALSE]
}

# Degrees of freedom of the t law that estimates over their errors have: of errors by clusters one less than those.
freedom <- function(object) {
  count <- object$file$standard_errors$clusters$count
  if (is.null(count)) Inf else count - 1
}

# How many rows are independent of each other as BIC counts them is that of the groups, where rows are in groups.
#' @export
logLik.moe <- function(object, ...) {
  fit <- object$file$fit
  count <- if (is.null(object$file$groups)) nobs(object) else exp((fit$bic + 2 * fit$log_likelihood) / df_of(object))
  structure(fit$log_likelihood, df = df_of(object), nobs = count, class = "logLik")
}

df_of <- function(object) round((object$file$fit$aic + 2 * object$file$fit$log_likelihood) / 2)

#' @export
nobs.moe <- function(object, ...) {
  fit <- object$file$fit
  if (is.null(fit$weight)) fit$n else fit$weight
}

#' Noise, degrees of freedom and AIC
#'
#' There is no `deviance`: no saturated mixture stands against a fit.
#'
#' @param object,fit a fit by [moe()].
#' @param scale,... ignored.
#' @param k weight of a parameter: 2 for AIC.
#' @return `sigma` is the level of the noise, with `noise = "per-expert"` of each expert, and `NA` of families that have
#'   none. `df.residual` is `nobs` less the number of all parameters, those of gate and noise too. `extractAIC` has the
#'   number of parameters, and AIC: with it [stats::drop1()] and [stats::step()] take terms out of the experts, of a formula
#'   without a bar out of the gate too.
#' @examplesIf moe_available()
#' fit <- moe(dist ~ speed, cars, k = 1)
#' sigma(fit)
#' extractAIC(fit)
#' @export
sigma.moe <- function(object, ...) {
  of <- as.double(unlist(object$file$sigma))
  if (length(of)) of else NA_real_
}

#' @rdname sigma.moe
#' @export
df.residual.moe <- function(object, ...) nobs(object) - df_of(object)

#' @rdname sigma.moe
#' @export
extractAIC.moe <- function(fit, scale = 0, k = 2, ...) {
  c(df_of(fit), k * df_of(fit) - 2 * fit$file$fit$log_likelihood)
}

#' @export
model.frame.moe <- function(formula, ...) {
  if (is.null(formula$model)) refuse("a model that was read from a file has no model frame")
  formula$model
}

#' @export
terms.moe <- function(x, ...) x$terms$both

#' @export
model.matrix.moe <- function(object, part = c("experts", "gate"), ...) {
  designs(object$terms, object$model, object$contrasts, object$clash)[[match.arg(part)]]
}

#' Compare two fits
#'
#' As `moe compare`: the fits side by side, and the likelihood ratio where one contains the other. Fits with other
#' numbers of experts are refused: at the smaller the larger has no one set of parameters, and the ratio is not
#' chi-squared. BIC compares them.
#'
#' @param object,... two fits of the same rows.
#' @return A data frame of class `anova`: log-likelihood, degrees of freedom, BIC and AIC of each, and the test.
#' @examplesIf moe_available()
#' small <- moe(dist ~ speed, cars, k = 1)
#' anova(small, update(small, . ~ . + I(speed^2)))
#' @export
anova.moe <- function(object, ...) {
  others <- list(...)
  if (length(others) != 1 || !inherits(others[[1]], "moe"))
    refuse("anova: want two fits: anova(a, b)")
  place <- tempfile("moe-")
  dir.create(place)
  on.exit(unlink(place, recursive = TRUE))
  files <- file.path(place, c("a.json", "b.json"))
  write_moe(object, files[1])
  write_moe(others[[1]], files[2])
  found <- fromJSON(run(c("compare", files, "--json"), accept = 0:1))
  if (object$says$experts != others[[1]]$says$experts) refuse("anova: ", found$untested)
  side <- function(part) vapply(found[c("a", "b")], function(of) as.double(of[[part]]), 0)
  out <- data.frame(Df = side("parameters"), logLik = side("log_likelihood"), BIC = side("bic"), AIC = side("aic"),
                    Chisq = NA_real_, "Chi Df" = NA_real_, "Pr(>Chisq)" = NA_real_, check.names = FALSE)
  calls <- match.call(expand.dots = FALSE)
  rownames(out) <- make.unique(vapply(c(calls$object, calls$...), function(x) deparse(x, nlines = 1)[1], ""))
  note <- NULL
  if (!is.null(found$nested)) {
    larger <- if (found$nested$smaller == "a") 2 else 1
    out[larger, 5:7] <- c(found$nested$statistic, found$nested$df, found$nested$p_value)
  } else {
    note <- paste0("No test: ", found$untested, "\n")
  }
  structure(out, heading = c("Mixtures of the same rows\n", note), class = c("anova", "data.frame"))
}
