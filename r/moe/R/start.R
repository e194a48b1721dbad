#' Begin where flexmix ended
#'
#' `moe(start = fit)` takes a fit by flexmix as one of the starts, and `summary` says by how much flexmix's optimum was
#' missed. The components' order stays; the gate is made relative to the last expert, where flexmix's is to the first.
#' Without `k` there are as many experts as components. flexmix divides the noise variances by weighted degrees of
#' freedom, so that its log-likelihood is a little below that of its own optimum.
#'
#' Its terms must be those of the formula, its family that of the fit, and its link the activation's. Its concomitant
#' model becomes the gate: [flexmix::FLXPmultinom()], or constant proportions.
#'
#' @param fit a fit by flexmix with one regression, of [flexmix::FLXMRglm()] or an interface to it.
#' @return `start_flexmix` returns a list: `experts` with a row for each expert, `gate` with one for each but the last,
#'   `sigma` and `proportions`. It is what `moe(start = )` begins with.
#' @examplesIf moe_available() && requireNamespace("flexmix", quietly = TRUE)
#' data("NPreg", package = "flexmix")
#' peer <- flexmix::flexmix(yn ~ x + I(x^2), data = NPreg, k = 2)
#' fit <- moe(yn ~ x + I(x^2) | 1, NPreg, noise = "per-expert", start = peer)
#' fit$start # the log-likelihood there
#' logLik(fit)
#' @export
start_flexmix <- function(fit) {
  if (!inherits(fit, "flexmix")) refuse("start: want a fit by flexmix")
  if (length(fit@model) != 1 || !inherits(fit@model[[1]], "FLXMRglm"))
    refuse("start: flexmix's fit has another model than one of FLXMRglm; it cannot be a start")
  of <- flexmix::parameters(fit)
  coefficients <- grep("^coef\\.", rownames(of))
  experts <- t(of[coefficients, , drop = FALSE])
  dimnames(experts) <- list(NULL, sub("^coef\\.", "", rownames(of)[coefficients]))
  gate <- if (inherits(fit@concomitant, "FLXPmultinom")) t(flexmix::parameters(fit, which = "concomitant"))
  else matrix(log(fit@prior), dimnames = list(NULL, "(Intercept)"))
  gate <- gate - matrix(gate[nrow(gate), ], nrow(gate), ncol(gate), byrow = TRUE)
  list(experts = experts, gate = unname2(gate[-nrow(gate), , drop = FALSE]),
       sigma = if ("sigma" %in% rownames(of)) unname(of["sigma", ]), proportions = unname(fit@prior),
       family = tolower(fit@model[[1]]@family))
}

unname2 <- function(x) `rownames<-`(x, NULL)

# Writes a start where the command reads it, and says its log-likelihood.
start_file <- function(start, fit, target, rows, place) {
  if (is.character(start) && length(start) == 1) return(list(path = normalizePath(start, mustWork = TRUE)))
  path <- file.path(place, "start.json")
  if (inherits(start, "moe")) {
    write_moe(start, path)
    return(list(path = path))
  }
  of <- start_flexmix(start)
  family <- fit$family$family
  if (of$family != family) refuse("start: flexmix's family is ", of$family, ", the fit's ", family)
  activation <- c(gaussian = "identity", poisson = "exp", binomial = "sigmoid", gamma = "expr: 1/z")[[family]]
  if (!is.null(fit$family$link) && !identical(links[[fit$family$link]], activation))
    refuse("start: flexmix's link is that of ", activation, ", the fit's another; begin from one of the same link")
  place_in <- function(x) {
    names <- names(fit$columns)[match(colnames(x), fit$columns)]
    if (any(bad <- is.na(names) & colnames(x) != "(Intercept)"))
      refuse("start: flexmix has the term ", colnames(x)[bad][1], ", the formula has not")
    out <- matrix(0, nrow(x), length(fit$columns))
    out[, match(names[!is.na(names)], names(fit$columns))] <- x[, !is.na(names)]
    own <- if ("(Intercept)" %in% colnames(x)) x[, "(Intercept)"]
    list(matrix = out, intercepts = own)
  }
  experts <- place_in(of$experts)
  gate <- place_in(of$gate)
  file <- list(format = "moe-model/v1",
    activation = list(name = activation, params = setNames(list(), character()), version = "1"),
    d = length(fit$columns), k = nrow(of$experts), features = I(names(fit$columns)), target = target,
    regressors = experts$matrix, gating = gate$matrix,
    regressor_intercepts = if (!is.null(experts$intercepts)) I(unname(experts$intercepts)),
    gating_intercepts = if (!is.null(gate$intercepts)) I(unname(gate$intercepts)),
    sigma = if (length(of$sigma)) I(of$sigma) else 1, proportions = I(of$proportions), standard_errors = NULL,
    covariance = NULL,
    fit = list(method = "em", seed = 1, n = nrow(rows$x), log_likelihood = 0, bic = 0, aic = 0, converged = TRUE,
               status = "converged", iterations = 1, starts = list(), certificate = NULL, moments_estimate = NULL,
               notes = list()))
  if (family != "gaussian") file$family <- family
  text <- toJSON(file)
  writeLines(text, path, useBytes = TRUE)
  density <- log_density_of(says(fromJSON(text)), rows, fit$y)
  weights <- if (is.null(fit$weights)) 1 else fit$weights
  list(path = path, log_likelihood = sum(weights * density))
}
