#' Print and summarise a fit
#'
#' `summary` reads as that of `lm`: a table for each expert, one for the gate, the dispersion, what the certificate
#' says of the optimum and of the model, in words, and all warnings of the fit, such as why an expert has no standard
#' errors. `print` has the three weightiest of these.
#'
#' @param x,object a fit by [moe()], or its summary.
#' @param digits significant digits.
#' @param ... further arguments of [stats::printCoefmat()].
#' @return `summary` returns a list of class `summary.moe`: `experts` and `gate`, lists of coefficients' tables;
#'   `dispersion`, `certificate`, `warnings` and the criteria.
#' @examplesIf moe_available()
#' summary(moe(dist ~ speed, cars, k = 2, noise = "per-expert"))
#' @export
print.moe <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  if (!is.null(x$call)) cat("Call:\n", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  of <- parameters_of(x)
  part <- sub("[0-9]*(:.*)?$", "", rownames(of))
  cat(title_of(x), ", proportions ", paste(format(x$file$proportions, digits = 3), collapse = ", "), "\n\n", sep = "")
  cat("Experts:\n")
  print(wide(of[part == "expert", ], x$says$experts), digits = digits, na.print = "")
  if (any(part == "gate")) {
    cat("\nGate, relative to ", last_of(x$says), ":\n", sep = "")
    print(wide(of[part == "gate", ], x$says$k - 1), digits = digits, na.print = "")
  }
  cat("\n")
  rest <- of[!part %in% c("expert", "gate"), ]
  if (nrow(rest))
    cat(paste0(rownames(rest), ": ", format(rest$estimate, digits = digits), collapse = ", "), "\n", sep = "")
  cat("Log-likelihood: ", format(x$file$fit$log_likelihood, digits = digits + 2L), " on ", df_of(x), " parameters and ",
      format(nobs(x)), " rows\n", sep = "")
  warned <- warnings_of(x)
  print_warnings(warned[seq_len(min(3, length(warned)))], if (length(warned) > 3) paste(length(warned) - 3, "more: summary()"))
  invisible(x)
}

print_warnings <- function(warned, more = NULL) {
  if (length(warned)) cat("", strwrap(paste0("Warning: ", warned, "."), exdent = 2), more, sep = "\n")
}

# The kinds of warnings, the weightiest first, as the command's first screen has them.
by_weight <- c("repeated rows", "target", "range of g", "starts", "k too large", "stopped", "new rows", "gate",
               "collinear features", "no errors", "", "larger k", "smaller k")

# The warnings of a fit, the weightiest first, one of every kind before the second of any, and that its gate separates
# rows. Where k may be too large none says that a larger one may be better.
warnings_of <- function(object) {
  fit <- object$file$fit
  texts <- as.character(unlist(fit$warnings))
  kinds <- as.character(unlist(fit$warning_kinds))
  if (length(kinds) != length(texts)) kinds <- rep("", length(texts))
  second <- duplicated(kinds) & kinds != ""
  weight <- match(kinds, by_weight, match("", by_weight))
  keep <- kinds != "larger k" | !"k too large" %in% kinds
  texts <- texts[order(second, weight)][keep[order(second, weight)]]
  if (length(fit$separation))
    texts <- c(texts, "the gate separates rows, and at the maximum of the likelihood it is infinite")
  vapply(texts, arguments, "", USE.NAMES = FALSE)
}

title_of <- function(x) {
  leaves <- if (length(x$file$leaves)) x$file$leaves else list(x$file$activation)
  names <- vapply(leaves, `[[`, "", "name")
  paste0(if (x$says$experts == 1) "One expert" else paste(x$says$experts, "experts"),
         if (x$says$zero) " and a zero expert", " (", paste(names, collapse = ", "), ")")
}

# Estimates with a row for each column of the data, and a column for each expert.
wide <- function(of, k) {
  column <- sub("^[^:]*:", "", rownames(of))
  whose <- as.integer(sub("^[a-z]+([0-9]+):.*", "\\1", rownames(of)))
  out <- matrix(NA_real_, length(unique(column)), k, dimnames = list(unique(column), seq_len(k)))
  out[cbind(match(column, unique(column)), whose)] <- of$estimate
  out
}

#' @rdname print.moe
#' @export
summary.moe <- function(object, ...) {
  of <- parameters_of(object)
  z <- of$estimate / of$error
  table <- cbind(Estimate = of$estimate, "Std. Error" = of$error, "z value" = z, "Pr(>|z|)" = 2 * stats::pt(-abs(z), freedom(object)))
  rownames(table) <- rownames(of)
  whose <- sub(":.*", "", rownames(of))
  pick <- function(name) {
    out <- table[whose == name, , drop = FALSE]
    rownames(out) <- sub("^[^:]*:", "", rownames(out))
    out
  }
  k <- object$says$k
  experts <- seq_len(object$says$experts)
  coefficients <- grepl("^(expert|gate)", whose)
  structure(list(
    call = object$call, title = title_of(object),
    family = object$family$family, proportions = object$file$proportions, coefficients = table,
    experts = setNames(lapply(paste0("expert", experts), pick), paste("Expert", experts)),
    gate = setNames(lapply(paste0("gate", seq_len(k - 1)), pick),
                    sprintf("Gate: expert %d against %s", seq_len(k - 1), last_of(object$says))),
    dispersion = table[!coefficients, 1:2, drop = FALSE], kind = object$file$standard_errors$kind,
    log_likelihood = object$file$fit$log_likelihood, df = df_of(object), nobs = nobs(object), aic = object$file$fit$aic,
    bic = object$file$fit$bic, residuals = if (!is.null(object$terms) && knows(object)) residuals_of(object, "quantile"),
    na.action = object$na.action, selection = selection_of(object), left = left_of(object), certificate = verdicts(object),
    start = object$start,
    activation_error = object$activation_error, warnings = warnings_of(object), notes = object$file$fit$notes), class = "summary.moe")
}

# What the certificate says, in words.
verdicts <- function(object) {
  certificate <- object$file$fit$certificate
  if (is.null(certificate)) return(NULL)
  hint <- function(text) if (length(text) && nzchar(text)) paste0("; try ", arguments(text))
  cause <- if (length(certificate$cause) && nzchar(certificate$cause)) paste0(", which suggests ", certificate$cause)
  c(paste0("Optimum: ", certificate$optimum, "; ", certificate$reason, hint(certificate$optimum_try), "."),
    paste0("Model: ", certificate$model, if (length(certificate$model_reason)) paste0("; ", certificate$model_reason),
           if (!is.null(certificate$p_value)) paste0("; p = ", format(certificate$p_value, digits = 2)), cause,
           hint(certificate$try), "."))
}

# Flags of the command as arguments of moe().
arguments <- function(text) {
  text <- gsub("--robust", "errors = \"robust\"", text, fixed = TRUE)
  text <- gsub("--hac", "errors = \"hac\"", text, fixed = TRUE)
  text <- gsub("--zero-expert", "zero_expert = TRUE", text, fixed = TRUE)
  text <- gsub("--drop ([^ ,;]+)", "a table without \\1", text)
  text <- gsub("--starts(?! [0-9])", "starts", text, perl = TRUE)
  text <- gsub("--formula '([^']*)'", "formula = \\1", text)
  text <- gsub("--([a-z]+)-?([a-z]*) ([0-9.:]+)", "\\1_\\2 = \\3", text)
  text <- gsub("--([a-z]+)-?([a-z]*) ([^ ,;]+)", "\\1_\\2 = \"\\3\"", text)
  gsub("_ = ", " = ", text, fixed = TRUE)
}

# A row for each number of experts that was tried.
selection_of <- function(object) {
  rows <- object$file$fit$selection
  if (!length(rows)) return(NULL)
  columns <- c("k", "log_likelihood", "aic", "bic", "icl")
  value <- function(row, name) if (is.null(row[[name]])) NA_real_ else as.double(row[[name]])
  out <- as.data.frame(lapply(setNames(nm = columns), function(name) vapply(rows, value, 0, name)))
  out$chosen <- out$k == object$says$experts
  out
}

# What the gate is relative to.
last_of <- function(m) if (m$zero) "the zero expert" else paste("expert", m$k)

# Which numbers of experts the data leave; NULL of fits of one.
left_of <- function(object) {
  fit <- object$file$fit
  if (!length(fit$k_set)) return(NULL)
  set <- paste0("The data leave k = ", paste(unlist(fit$k_set), collapse = ", "), ".")
  bound <- fit$k_at_least
  if (is.null(bound)) return(set)
  paste0("At least ", bound$k, ", with ", 100 * bound$level, "% confidence. ", set)
}

#' @rdname print.moe
#' @export
print.summary.moe <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  if (!is.null(x$call)) cat("\nCall:\n", paste(deparse(x$call), collapse = "\n"), "\n", sep = "")
  if (!is.null(x$residuals)) {
    cat("\nQuantile residuals:\n")
    q <- quantile(x$residuals, na.rm = TRUE)
    print(zapsmall(setNames(q, c("Min", "1Q", "Median", "3Q", "Max")), digits + 1L), digits = digits)
  }
  cat("\n", x$title, ", family ", x$family, "\n", sep = "")
  for (i in seq_along(x$experts)) {
    cat("\n", names(x$experts)[i], ", proportion ", format(x$proportions[i], digits = 3), ":\n", sep = "")
    printCoefmat(x$experts[[i]], digits = digits, signif.legend = FALSE, na.print = "-", ...)
  }
  for (i in seq_along(x$gate)) {
    cat("\n", names(x$gate)[i], ":\n", sep = "")
    printCoefmat(x$gate[[i]], digits = digits, signif.legend = i == length(x$gate), na.print = "-", ...)
  }
  if (nrow(x$dispersion)) {
    cat("\nDispersion:\n")
    print(x$dispersion, digits = digits, na.print = "-")
  }
  if (!is.null(x$kind)) cat("\nStandard errors: ", x$kind, "\n", sep = "")
  long <- function(v) format(v, digits = digits + 2L)
  cat(if (is.null(x$kind)) "\n", "Log-likelihood: ", long(x$log_likelihood), " on ", x$df, " parameters and ",
      format(x$nobs), " rows; AIC: ", long(x$aic), ", BIC: ", long(x$bic), "\n", sep = "")
  if (nzchar(omitted <- stats::naprint(x$na.action))) cat("  (", omitted, ")\n", sep = "")
  if (!is.null(x$start))
    cat("The start's log-likelihood: ", long(x$start), ", which is ",
        format(x$log_likelihood - x$start, digits = 3), " below this.\n", sep = "")
  if (!is.null(x$activation_error))
    cat("The activation is a curve, whose error is at most ", format(x$activation_error, digits = 2), ".\n", sep = "")
  if (!is.null(x$selection)) {
    cat("\nNumber of experts:\n")
    print(x$selection, digits = digits + 2L, row.names = FALSE)
    if (!is.null(x$left)) cat(x$left, "\n", sep = "")
  }
  if (length(x$certificate)) cat("\n", paste(strwrap(x$certificate, exdent = 2), collapse = "\n"), "\n", sep = "")
  print_warnings(x$warnings)
  invisible(x)
}
