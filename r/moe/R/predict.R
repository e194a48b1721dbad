# The rows that a fit was made of, or that newdata has, as model.R takes them.

rows_of <- function(object, x) {
  all <- joined(x)
  matrix <- do.call(cbind, unname(all[object$columns[object$file$features]]))
  list(x = matrix, offset = object$offset, trials = object$trials, group = object$group)
}

fit_rows <- function(object) {
  if (is.null(object$terms)) refuse("a model that was read from a file has not the rows of its fit: want newdata")
  rows_of(object, designs(object$terms, object$model, object$contrasts, object$clash))
}

# The rows of newdata, their target where it is asked for, and what becomes of rows with missing values.
new_rows <- function(object, newdata, na.action, target = FALSE) {
  if (is.null(object$terms)) return(file_rows(object, newdata, na.action, target))
  tt <- object$terms$both
  if (!target) tt <- delete.response(tt)
  frame <- model.frame(tt, newdata, na.action = na.action, xlev = object$xlevels)
  if (!is.null(classes <- attr(tt, "dataClasses"))) stats::.checkMFClasses(classes, frame)
  rows <- rows_of(object, designs(object$terms, frame, object$contrasts, object$clash))
  rows$offset <- new_offset(object, tt, newdata, frame)
  y <- if (target) target(frame, object$family)
  rows$trials <- y$trials
  rows$group <- new_groups(object, newdata, frame)
  list(rows = rows, y = y$y, na.action = attr(frame, "na.action"), names = rownames(frame))
}

# The offset of newdata: of terms of the formula, and of the argument where it can be evaluated there.
new_offset <- function(object, tt, newdata, frame) {
  offset <- model.offset(frame)
  if (is.null(object$call$offset)) return(offset)
  own <- eval(object$call$offset, newdata, environment(object$formula))
  if (length(gone <- attr(frame, "na.action"))) own <- own[-gone]
  if (is.null(offset)) own else own + offset
}

# The groups of newdata, where it has what they were made of: without them its rows are of groups that nobody has seen.
new_groups <- function(object, newdata, frame) {
  of <- object$call$group
  if (is.null(of) || !length(all.vars(of)) || !all(all.vars(of) %in% names(newdata))) return(NULL)
  own <- as.character(eval(of, newdata, environment(object$formula)))
  if (length(gone <- attr(frame, "na.action"))) own[-gone] else own
}

# Rows of one trial each: what is said of them are probabilities, as predict.glm's.
one_trial <- function(rows) {
  rows$trials <- NULL
  rows
}

file_rows <- function(object, newdata, na.action, target) {
  file <- object$file
  columns <- if (is.null(file$design)) file$features else file$design$columns
  if (target) columns <- c(columns, file$target, file$roles$trials)
  log <- isTRUE(grepl("^log[(].*[)]$", file$roles$offset))
  offset <- if (log) sub("^log[(](.*)[)]$", "\\1", file$roles$offset) else file$roles$offset
  columns <- unique(c(columns, offset))
  if (length(gone <- setdiff(columns, names(newdata))))
    refuse("no column ", gone[1], "; there are ", paste(names(newdata), collapse = ", "),
           "; want the columns of the file, which of a fit by moe() are those of model.matrix: ",
           paste(columns, collapse = ", "))
  groups <- intersect(file$groups$column, names(newdata))
  frame <- na.action(as.data.frame(newdata)[c(columns, groups)])
  numbers <- function(name) if (length(name)) as.double(frame[[name]])
  list(rows = list(x = file_matrix(file, frame[columns]), offset = if (log) base::log(numbers(offset)) else numbers(offset),
                   trials = if (target) numbers(file$roles$trials),
                   group = if (length(groups)) as.character(frame[[groups]])),
       y = if (target) numbers(file$target), na.action = attr(frame, "na.action"), names = rownames(frame))
}

#' What a fit says of rows
#'
#' All is computed here from the model's file, and no process is started. An activation that is not in the file, as a
#' plugin's, is refused: `moe predict` has it.
#'
#' | type | what |
#' |---|---|
#' | `"response"` | the mean of the target; of a model of 1/y its median |
#' | `"expert"` | the mean in each expert |
#' | `"prob"` | the gate: the probability of each expert given x |
#' | `"posterior"` | the probability of each expert given x and the target, which newdata must have |
#' | `"link"` | the experts' linear predictors |
#' | `"quantile"` | quantiles of the target at the probabilities `at` |
#'
#' `interval = "prediction"` has the central interval of the target beside the mean; the parameters' uncertainty is in
#' it, and in quantiles, as in `moe predict --interval`. `interval = "confidence"` has that of the mean, by the delta
#' method.
#'
#' Rows of a group that the fit has seen have its posterior in the place of the gate. Others go by the gate, and with
#' `"posterior"` by all rows of their group in newdata. The mean of rows without the group's column is that of new
#' groups.
#'
#' @param object a fit by [moe()], or what [read_moe()] returned.
#' @param newdata a data frame; without it the rows of the fit.
#' @param type what is predicted; see below.
#' @param interval,level kind and probability of an interval beside the response.
#' @param at probabilities of quantiles.
#' @param na.action what becomes of rows of newdata with missing values; they are `NA` in the result by default.
#' @param ... `probs` or `p`, which are other names of `at`; all else is refused.
#' @return A vector with the rows' names, or a matrix with a column for each expert, quantile, or `fit`, `lwr` and
#'   `upr`.
#' @examplesIf moe_available()
#' fit <- moe(dist ~ speed, cars, k = 2, noise = "per-expert")
#' predict(fit, data.frame(speed = c(5, 15)), type = "prob")
#' @export
predict.moe <- function(object, newdata, type = c("response", "expert", "prob", "posterior", "link", "quantile"),
                        interval = c("none", "prediction", "confidence"), level = 0.95, at = c(0.05, 0.5, 0.95),
                        na.action = stats::na.pass, ...) {
  type <- match.arg(type)
  more <- list(...)
  if (length(other <- intersect(c("probs", "p"), names(more)))) at <- more[[other[1]]]
  unused <- if (is.null(names(more))) rep("", length(more)) else setdiff(names(more), other)
  if (length(unused))
    refuse("unused argument (", if (nzchar(unused[1])) unused[1] else "without a name", "): want the names of ?predict.moe")
  interval <- match.arg(interval)
  if (interval != "none" && type != "response")
    refuse("interval: there is one of type = \"response\"; leave it out")
  probabilities(if (type == "quantile") at, "at")
  probabilities(if (interval != "none") level, "level")
  known(object)
  if (missing(newdata)) {
    of <- list(rows = fit_rows(object), y = object$y, na.action = object$na.action, names = rownames(object$model))
    omitted <- function(value) napredict(of$na.action, value)
  } else {
    of <- new_rows(object, newdata, na.action, type == "posterior")
    omitted <- function(value) napredict(of$na.action, value)
  }
  if (type != "posterior") of$rows <- one_trial(of$rows)
  value <- with_missing(of, function(rows, y) said_of(object$says, rows, y, type, interval, level, at),
                        columns_of(object$says, type, interval, at))
  if (is.matrix(value)) rownames(value) <- of$names else if (length(value)) names(value) <- of$names
  omitted(value)
}

# What the classes of the gate are called.
classes_of <- function(m) c(paste0("expert", seq_len(m$experts)), if (m$zero) "zero")

known <- function(object) {
  if (!knows(object)) refuse("predictions from this model's file take the command (moe predict): ",
                           if (object$says$arranged) "it has arrangements" else
                             paste("its activation or family is not known here:", object$file$activation$name,
                                   object$says$family))
}

probabilities <- function(p, name) {
  if (!is.null(p) && (!is.numeric(p) || anyNA(p) || any(p <= 0 | p >= 1)))
    refuse(name, " = ", paste(p, collapse = ", "), ": want probabilities between 0 and 1")
}

# What the columns of a prediction are called; NULL where it is a vector.
columns_of <- function(m, type, interval, at) {
  switch(type, prob = , posterior = classes_of(m), expert = , link = classes_of(m)[seq_len(m$experts)],
    quantile = paste0(format(100 * at, trim = TRUE), "%"),
    response = if (interval != "none") c("fit", "lwr", "upr"))
}

# What `say` returns for the rows that lack nothing, NA for the others.
with_missing <- function(of, say, columns) {
  whole <- !is.na(rowSums(of$rows$x))
  for (v in list(of$rows$offset, of$rows$trials, of$rows$group, of$y)) if (!is.null(v)) whole <- whole & !is.na(v)
  out <- rep(NA_real_, length(whole) * max(1, length(columns)))
  if (!is.null(columns)) out <- matrix(out, length(whole), length(columns), dimnames = list(NULL, columns))
  if (!any(whole)) return(out)
  pick <- function(v) if (!is.null(v)) v[whole]
  rows <- list(x = of$rows$x[whole, , drop = FALSE], offset = pick(of$rows$offset), trials = pick(of$rows$trials),
               group = pick(of$rows$group))
  value <- say(rows, pick(of$y))
  if (all(whole)) return(value)
  if (is.matrix(out)) out[whole, ] <- value else out[whole] <- value
  out
}

said_of <- function(m, rows, y, type, interval, level, at) {
  classes <- function(x) `colnames<-`(x, classes_of(m))
  experts <- function(x) classes(x)[, seq_len(m$experts), drop = FALSE]
  switch(type,
    expert = experts(experts_of(m, rows)$mean),
    prob = classes(gate_of(m, rows)),
    posterior = classes(posterior_of(m, rows, y)),
    link = experts(experts_of(m, rows)$index),
    quantile = `colnames<-`(vapply(at, function(q) quantile_of(m, rows, q), numeric(nrow(rows$x))) |>
                              matrix(ncol = length(at)), columns_of(m, type, interval, at)),
    response = {
      fit <- mean_of(m, rows)
      tails <- c(lwr = (1 - level) / 2, upr = (1 + level) / 2)
      switch(interval, none = fit,
        prediction = cbind(fit = fit, vapply(tails, function(q) quantile_of(m, rows, q), fit) |>
                             matrix(ncol = 2, dimnames = list(NULL, names(tails)))),
        confidence = {
          wide <- qnorm(tails[[2]]) * sqrt(pmax(0, rowSums((d <- mean_slopes(m, rows)) %*% m$uncertain$c * d)))
          cbind(fit = fit, lwr = fit - wide, upr = fit + wide)
        })
    })
}

# Derivatives of the mean by the parameters that have a covariance, n x p.
mean_slopes <- function(m, rows) {
  if (is.null(m$uncertain)) refuse("interval: the model's file has no covariance")
  if (m$target_scale != "") refuse("interval: \"confidence\" is of models of y itself; want \"prediction\"")
  at <- experts_of(m, rows)
  gate <- gate_of(m, rows)
  means <- expert_mean(m, at$mean, rows)
  count <- families[[m$family]]$count(rows)
  score <- gate * means - gate * rowSums(gate * means)
  score[known_groups(m, rows), ] <- 0 # their posterior is taken as it is
  slopes(m, rows, at, gate * count, score, list())
}

# Derivatives by the parameters that have a covariance, n x p, of what has derivatives of_mean by the experts' means,
# of_score by the logarithms of the gate's P(z=i|x) before they are normed, and of_own by the own parameters.
slopes <- function(m, rows, at, of_mean, of_score, of_own) {
  labels <- m$uncertain$labels
  of_logit <- logit_slopes(m, rows, of_score)
  out <- matrix(0, nrow(rows$x), nrow(labels))
  for (a in seq_len(nrow(labels))) {
    i <- labels$index[a]
    experts <- if (i == 0) seq_len(m$experts) else i
    out[, a] <- switch(labels$part[a],
      expert = of_mean[, i] * at$slope[, i] * column_of(rows, labels$feature[a]),
      gate = of_logit[, i] * column_of(rows, labels$feature[a]),
      offset = rowSums(of_mean[, experts, drop = FALSE]),
      scale = rowSums((of_mean * at$g)[, experts, drop = FALSE]),
      if (is.null(by <- of_own[[labels$part[a]]])) 0 else rowSums(by[, experts, drop = FALSE]))
  }
  out
}

# By the gate's predictors: a node's branch gets what its leaves have, less its share of what all leaves of the node
# have.
logit_slopes <- function(m, rows, of_score) {
  logits <- logits_of(m, rows)
  out <- 0 * logits
  for (gate in m$gates) {
    last <- length(gate$ends)
    begins <- c(gate$first, gate$ends[-last] + 1)
    leaves <- function(i) rowSums(of_score[, begins[i]:gate$ends[i], drop = FALSE])
    share <- softmax(cbind(logits[, gate$ends[-last], drop = FALSE], 0))
    node <- rowSums(of_score[, gate$first:gate$node, drop = FALSE])
    for (i in seq_len(last - 1)) out[, gate$ends[i]] <- leaves(i) - share[, i] * node
  }
  out
}

#' Residuals
#'
#' @param object a fit by [moe()].
#' @param type `"response"` is the target less its mean, `"pearson"` that by the standard deviation of the target given
#'   x, and `"quantile"` the normal quantile of the probability below the target (Dunn & Smyth 1996): under the model
#'   these are N(0, 1). Of counts the probability is the mid-distribution's, P(Y < y) + P(Y = y)/2.
#' @param randomised of counts: a place between P(Y < y) and P(Y <= y) drawn for every row, in the place of the middle.
#' @param ... ignored.
#' @return A vector with the rows' names, padded where `na.action` was `na.exclude`.
#' @export
residuals.moe <- function(object, type = c("response", "pearson", "quantile"), randomised = FALSE, ...) {
  naresid(object$na.action, setNames(residuals_of(object, match.arg(type), randomised), rownames(object$model)))
}

residuals_of <- function(object, type, randomised = FALSE) {
  known(object)
  m <- object$says
  rows <- fit_rows(object)
  if (type == "response") return(object$y / tried(rows) - object$fitted.values)
  if (type == "pearson") return((object$y - mean_of(m, rows)) / sqrt(variance_of(m, rows)))
  p <- cdf_of(m, rows, object$y)
  if (families[[m$family]]$discrete) {
    below <- cdf_of(m, rows, object$y, below = TRUE)
    p <- below + (p - below) * (if (randomised) runif(length(p)) else 0.5)
  }
  qnorm(p)
}

#' @export
fitted.moe <- function(object, ...) {
  if (is.null(object$terms)) fit_rows(object)
  known(object)
  napredict(object$na.action, object$fitted.values)
}

#' Draw targets from a fit
#'
#' The parameters are as they were estimated.
#'
#' @param object a fit by [moe()].
#' @param nsim how many of each row.
#' @param seed as in [stats::simulate()].
#' @param newdata a data frame; without it the rows of the fit.
#' @param ... ignored.
#' @return A data frame with a column for each draw, and the attribute `seed`. Rows that the fit left out are `NA` where
#'   `na.action` was `na.exclude`.
#' @export
simulate.moe <- function(object, nsim = 1, seed = NULL, newdata, ...) {
  known(object)
  if (!exists(".Random.seed", envir = .GlobalEnv, inherits = FALSE)) runif(1)
  if (is.null(seed)) {
    state <- get(".Random.seed", envir = .GlobalEnv)
  } else {
    before <- get(".Random.seed", envir = .GlobalEnv)
    set.seed(seed)
    state <- structure(seed, kind = as.list(RNGkind()))
    on.exit(assign(".Random.seed", before, envir = .GlobalEnv))
  }
  of <- if (missing(newdata)) list(rows = fit_rows(object), names = rownames(object$model))
  else new_rows(object, newdata, stats::na.omit)
  draws <- lapply(seq_len(nsim), function(i) if (length(of$names)) draw_of(object$says, of$rows) else numeric())
  if (missing(newdata)) { # as `fitted` has them
    draws <- lapply(draws, function(draw) naresid(object$na.action, setNames(draw, of$names)))
    if (nsim > 0) of$names <- names(draws[[1]])
  }
  draws <- as.data.frame(setNames(lapply(draws, unname), paste0("sim_", seq_len(nsim))), row.names = of$names)
  structure(draws, seed = state)
}
