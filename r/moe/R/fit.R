#' Fit a mixture of regressions with a gate
#'
#' The target of a row comes from expert i with probability \eqn{softmax_i(\langle w_i, x\rangle + v_i)}, and is then
#' \eqn{g(\langle a_i, x\rangle + b_i)} plus noise. The fit is by maximum likelihood, from many starts, by the command
#' `moe fit`.
#'
#' The matrices are those of [model.frame()] and [model.matrix()]: contrasts, splines, interactions, `poly` and `ns`,
#' logical and ordered variables and matrices are what they are in `lm`. So are `subset`, `na.action` and new levels in
#' [predict.moe()]. A column that is a linear combination of those before it is left out, with a warning.
#'
#' Weights are frequency weights, as in flexmix: a row of weight w counts as w rows, and `nobs` is their sum. They are
#' not those of `lm`, which say how precise a row is.
#'
#' @param formula `y ~ experts | gate`: the terms of the experts and, after a bar, those of the gate; without a bar the
#'   gate sees what the experts do. `| 1` is a gate that is the same for all rows.
#' @param data a data frame; what is not there is looked for where the formula was written.
#' @param k number of experts, or a range, in which BIC, corrected for few rows, chooses, or the criterion `choose`.
#' @param activation the nonlinearity g: the name of a built-in (`"identity"`, `"relu"`, `"leakyrelu"`, `"sigmoid"`,
#'   `"tanh"`, `"exp"`, `"softplus"`, `"probit"`), an expression (`"expr: z*tanh(softplus(z))"`), a path to a
#'   WebAssembly file, `"table:FILE"`, a function of a vector, which becomes a table (see [tabulate_activation()]), or
#'   a list with `name` and parameters, such as `list(name = "leakyrelu", slope = 0.3)`. By default the family's.
#' @param family distribution of the target around the experts' means: a name (`"gaussian"`, `"poisson"`,
#'   `"negative-binomial"`, `"gamma"`, `"binomial"`, `"student-t"`), or a family of R's such as `poisson()`, whose link
#'   says the activation.
#' @param group ids, evaluated in `data` as weights are: all rows of one id have one expert. Without a bar in the formula
#'   the gate sees the terms that are constant in every group.
#' @param shared labels of the experts' terms that have one coefficient for all experts, as `"x"` or `"poly(x, 2)"`, and `"1"`
#'   for the intercept.
#' @param cluster ids: standard errors hold where rows of one id depend on each other.
#' @param weights,subset,na.action,offset,contrasts as in `lm`; but see above for weights. `contrasts` are those of
#'   experts and gate.
#' @param noise `"shared"` or `"per-expert"`: the level of the noise.
#' @param start where to begin, beside other starts: a fit by [moe()], by flexmix, or the path of a model's file. See
#'   [start_flexmix()].
#' @param seed of everything random: equal seeds give equal fits.
#' @param threads at most so many; by default one for each processor. The result is the same.
#' @param verbose whether the command shows its progress, in an interactive session.
#' @param ... what else describes a fit, by the names of the file that `moe fit --config` reads: `hierarchy`, `leaves`,
#'   `method`, `errors`, `output_scale`, `sigma` and others; and `starts`, the number of starts.
#' @return An object of class `moe`. It has methods for [print()], [summary()][summary.moe()], [coef()][coef.moe()],
#'   `vcov`, `confint`, `logLik`, `AIC`, `BIC`, `nobs`, [sigma()][sigma.moe()], `df.residual`, `formula`, `model.frame`, `family`, `fitted`,
#'   [residuals()][residuals.moe()], [predict()][predict.moe()], `simulate`, [update()][update.moe()],
#'   [plot()][plot.moe()], [anova()][anova.moe()], `tidy`, `glance` and `augment`, and for `estfun` and `bread` of
#'   sandwich. `$file` has the members of the model's file.
#' @examplesIf moe_available()
#' fit <- moe(dist ~ speed, cars, k = 1:2)
#' fit
#' predict(fit, data.frame(speed = c(5, 15)), interval = "prediction")
#' @export
moe <- function(formula, data, k = 1:4, activation = NULL, family = "gaussian", group, cluster, shared = NULL, weights, offset, subset, na.action,
                contrasts = NULL, noise = c("shared", "per-expert"), start = NULL, seed = 1,
                threads = getOption("moe.threads"), verbose = FALSE, ...) {
  call <- match.call()
  more <- list(...)
  taken <- intersect(names(more), c("format", "data", "formula", "features", "target", "roles"))
  if (length(taken)) refuse(taken[1], ": moe() says that itself; leave it out")
  if (length(more) && (is.null(names(more)) || any(names(more) == "")))
    refuse("an argument without a name, behind those that have one: want the names of ?moe")
  config <- list(format = "moe-fit/v1", seed = seed, noise = match.arg(noise))
  if (missing(k) && !is.null(more$hierarchy)) k <- NULL
  if (missing(k) && inherits(start, "flexmix")) k <- start@k
  if (!is.null(more$errors)) more$errors <- I(more$errors) # a list, of one too
  if (is.character(more$method)) more$method <- list(name = more$method)
  if (!is.null(more$starts)) more$method$starts <- more$starts
  more$starts <- NULL
  if (is.character(more$leaves)) more$leaves <- lapply(more$leaves, function(name) list(name = name))
  config <- c(config, range_of(k), family_config(family), more)

  frame <- call
  frame <- frame[c(1, match(c("formula", "data", "subset", "weights", "na.action", "offset", "group", "cluster"),
                          names(frame), 0))]
  split <- parts(formula)
  frame$formula <- split$both
  frame$drop.unused.levels <- TRUE
  frame[[1]] <- quote(stats::model.frame)
  asked <- frame
  frame <- eval(asked, parent.frame())
  if (!nrow(frame)) {
    asked$na.action <- quote(stats::na.pass)
    refuse_empty(eval(asked, parent.frame()))
  }
  refuse_missing(frame)
  refuse_weights(model.weights(frame), rownames(frame))
  seen <- if (missing(data)) environment(formula) else data
  terms <- list(both = attr(frame, "terms"), experts = terms(split$experts, data = seen),
                gate = terms(split$gate, data = seen))
  if (split$bar && !is.null(attr(terms$gate, "offset")))
    refuse("an offset is of the experts: want it before the bar, or as offset =")
  if (!is.null(contrasts)) contrasts <- list(experts = own_contrasts(contrasts, terms$experts),
                                             gate = own_contrasts(contrasts, terms$gate))
  x <- designs(terms, frame, contrasts)
  refuse_infinite(x, rownames(frame))

  fit <- list(call = call, formula = formula, terms = terms, model = frame, na.action = attr(frame, "na.action"),
              xlevels = stats::.getXlevels(terms$both, frame), contrasts = lapply(x, attr, "contrasts"),
              clash = attr(x, "clash"), family = family_of(family), weights = model.weights(frame),
              offset = model.offset(frame), bar = split$bar, shared = shared)
  for (role in c("group", "cluster"))
    if (!is.null(ids <- frame[[paste0("(", role, ")")]])) fit[[role]] <- as.character(ids)
  y <- target(frame, fit$family)
  fit$y <- y$y
  fit$trials <- y$trials
  activation <- if (is.null(more$leaves)) activation_of(activation, family)
  fit <- ask(fit, config, x, activation, start, threads, verbose)
  fit$fitted.values <- if (knows(fit)) setNames(mean_of(fit$says, one_trial(rows_of(fit, x))), rownames(frame))
  warn(fit)
  fit
}

# Why no row is left of a model frame with its missing values.
refuse_empty <- function(frame) {
  if (!nrow(frame)) refuse("no row: data or subset have none")
  gone <- names(frame)[vapply(frame, function(v) all(is.na(v)), NA)]
  if (length(gone)) refuse("every value of ", gone[1], " is missing (NA), and no row is left")
  refuse("every row lacks a value, and none is left")
}

# What na.pass leaves in a model frame.
refuse_missing <- function(frame) {
  for (name in names(frame)) if (anyNA(frame[[name]]) && name != "(weights)") {
    row <- which(rowSums(is.na(as.matrix(frame[[name]]))) > 0)[1]
    refuse("row ", rownames(frame)[row], " of ", name, " is missing (NA): want na.action = na.omit or na.exclude")
  }
}

refuse_infinite <- function(x, rows) {
  for (part in x) for (name in colnames(part)) if (any(bad <- !is.finite(part[, name])))
    refuse("row ", rows[bad][1], " of ", name, " is ", part[bad, name][1], ": want finite values")
}

refuse_weights <- function(weights, rows) {
  if (any(bad <- !is.finite(weights) | weights < 0))
    refuse("weights: row ", rows[bad][1], " has ", weights[bad][1], "; want finite weights of 0 or more")
  if (length(weights) && all(weights == 0)) refuse("weights: all are 0, and no row is left")
}

target_label <- function(formula) paste(deparse(formula[[2]], width.cutoff = 500), collapse = " ")

own_contrasts <- function(contrasts, terms) contrasts[intersect(names(contrasts), rownames(attr(terms, "factors")))]

range_of <- function(k) {
  if (is.null(k)) return(NULL)
  if (!is.numeric(k) || anyNA(k) || any(k != round(k)) || any(k < 1) || length(k) > 1 && any(diff(k) != 1))
    refuse("k = ", paste(format(k), collapse = ", "), ": want a number of experts, or a range such as 1:4")
  if (length(k) == 1) list(k = k) else list(k = k[1], k_to = k[length(k)])
}

# The response as numbers; of a binomial with the trials, from the two columns that glm takes.
target <- function(frame, family) {
  y <- model.response(frame)
  if (is.null(y)) refuse("formula: no target left of ~")
  binomial <- family$family == "binomial"
  if (binomial && is.matrix(y) && ncol(y) == 2)
    return(list(y = as.double(y[, 1]), trials = as.double(rowSums(y))))
  if (binomial && is.factor(y)) return(list(y = as.double(y != levels(y)[1])))
  if (is.logical(y)) y <- as.double(y)
  if (!is.numeric(y) || is.matrix(y) && ncol(y) != 1)
    refuse("the target is ", if (is.matrix(y)) "a matrix" else paste("of class", class(y)[1]), ": want numbers")
  list(y = as.double(y))
}

# Writes the table, has it fitted, and keeps what came.
ask <- function(fit, config, x, activation, start, threads, verbose) {
  place <- tempfile("moe-")
  dir.create(place)
  on.exit(unlink(place, recursive = TRUE))
  kept <- lapply(x, independent, fit$weights)
  aliased <- lapply(names(x), function(part) setdiff(colnames(x[[part]]), kept[[part]]))
  if (length(gone <- unique(unlist(aliased))))
    warning("left out, for they are linear combinations of the others: ", paste(gone, collapse = ", "), call. = FALSE)
  if (!length(unlist(kept))) {
    if (nrow(x$experts) == 1) refuse("one row: no term is determined; want more rows")
    refuse("formula: no column but intercepts; want a term of the experts or of the gate, and for one constant lm or glm")
  }
  columns <- joined(x)[unique(unlist(kept))]
  fit$columns <- setNames(names(columns), plain(names(columns)))
  names(columns) <- names(fit$columns)
  free <- function(name) {
    while (name %in% names(columns)) name <- paste0(name, "_")
    name
  }
  rows <- list(x = do.call(cbind, columns), offset = fit$offset, trials = fit$trials)
  name <- free(plain(target_label(fit$formula)))
  begin <- if (!is.null(start)) start_file(start, fit, name, rows, place)
  part <- function(name, shared = NULL) {
    terms <- paste0("`", plain(kept[[name]]), "`", recycle0 = TRUE)
    labels <- attr(x[[name]], "term")
    one <- kept[[name]] %in% colnames(x[[name]])[labels %in% shared]
    terms[one] <- paste0("shared(", terms[one], ")", recycle0 = TRUE)
    intercept <- if (attr(x[[name]], "intercept")) "1" else "0"
    if (length(gone <- setdiff(shared, c(labels, if (intercept == "1") "1"))))
      refuse("shared: the experts have no term ", gone[1], "; there are ", paste(c(intercept, unique(labels)), collapse = ", "))
    paste(c(if ("1" %in% shared) "shared(1)" else intercept, terms), collapse = " + ")
  }
  columns[[name]] <- fit$y
  config$formula <- paste0("`", name, "` ~ ", part("experts", fit$shared))
  if (fit$bar || is.null(fit$group)) config$formula <- paste0(config$formula, " | ", part("gate"))
  for (role in c("weights", "offset", "trials")) if (!is.null(fit[[role]])) {
    own <- free(role)
    columns[[own]] <- fit[[role]]
    config$roles[[role]] <- own
  }
  for (role in c("group", "cluster")) if (!is.null(fit[[role]])) { # numbers, as NPY has them
    label <- plain(paste(deparse(fit$call[[role]]), collapse = " "))
    own <- free(if (nzchar(label)) label else role)
    columns[[own]] <- match(fit[[role]], unique(fit[[role]])) - 1
    config$roles[[role]] <- own
  }
  config$data <- file.path(place, "data.npy")
  write_npy(columns, config$data)
  made <- prepare(activation, place, fit$call$activation)
  config$activation <- made$config
  config$start <- begin$path
  file <- file.path(place, "config.json")
  writeLines(toJSON(config), file, useBytes = TRUE)
  out <- file.path(place, "model.json")
  embed <- if (isTRUE(grepl("\\.wasm$", config$activation$name))) "--embed"
  tryCatch(
    run(c("fit", "--config", file, "-o", out, embed, threads_flag(threads)), accept = 0:1, verbose = verbose,
        wrote = out),
    moe_error = function(e) { # the command knows arguments as keys, and the groups by numbers
      key <- sub('^unknown key "([^"]*)".*', "\\1", e$message)
      if (key %in% names(config)) e$message <- paste0("unused argument (", key, "): ", e$message)
      at <- regexpr("(?<=group )[0-9]+", e$message, perl = TRUE)
      if (at > 0 && length(fit$group))
        regmatches(e$message, at) <- unique(fit$group)[as.integer(regmatches(e$message, at)) + 1]
      stop(e)
    })
  fit$start <- begin$log_likelihood
  text <- paste(readLines(out, warn = FALSE, encoding = "UTF-8"), collapse = "\n")
  keep_file(fit, of_groups(text, unique(fit$group)), made$error)
}

# The text of a file whose groups have their own ids in the place of 0, 1, ...
of_groups <- function(text, ids) {
  if (!length(ids)) return(text)
  at <- regexpr("\"posteriors\": *[{][^}]*[}]", text)
  if (at < 0) return(text)
  known <- regmatches(text, at)
  codes <- gregexpr("\"[0-9]+\"(?= *:)", known, perl = TRUE)
  regmatches(known, codes) <- lapply(regmatches(known, codes), function(code) {
    vapply(ids[as.integer(gsub("\"", "", code)) + 1], toJSON, "")
  })
  regmatches(text, at) <- known
  text
}

# Names that a formula can quote, in the command and in NPY.
plain <- function(names) make.unique(gsub("[`'\"\\\\[:cntrl:]]", ".", names))

# A model's file in an object: its text as the command wrote it, its members, and what it says of rows.
keep_file <- function(fit, text, activation_error = NULL) {
  fit$json <- text
  fit$file <- for_new_rows(fromJSON(text))
  fit$activation_error <- activation_error
  if (is.null(fit$columns)) fit$columns <- setNames(nm = fit$file$features)
  fit$says <- says(fit$file)
  structure(fit, class = "moe")
}

warn <- function(fit) {
  of <- fit$file$fit
  if (!isTRUE(of$converged)) warning("the fit did not converge: ", of$status, call. = FALSE)
  certificate <- of$certificate
  if (is.null(certificate) || identical(certificate$optimum, "pass")) return(invisible())
  hint <- if (length(certificate$optimum_try)) paste0("; try ", arguments(certificate$optimum_try))
  warning("optimum: ", certificate$optimum, "; ", certificate$reason, hint, call. = FALSE)
}

#' Models as files
#'
#' `read_moe` reads a file that the command wrote, and predicts from it; `write_moe` writes the file of a fit, which the
#' command reads.
#'
#' The columns of a file by `write_moe` are those of [model.matrix()], such as `siteb` of a factor `site` and
#' `poly(x, 2)1`. `predict` of what `read_moe` returns and `moe predict` want rows with these columns, and do not make them of others.
#' [saveRDS()] keeps the fit itself, which does.
#'
#' @param path of the file.
#' @param fit a fit by [moe()], or what `read_moe` returned.
#' @return An object of class `moe`: without a formula, and with all that can be told without the rows of the fit.
#' @examplesIf moe_available()
#' fit <- moe(dist ~ speed, cars, k = 1)
#' path <- tempfile(fileext = ".json")
#' write_moe(fit, path)
#' all.equal(predict(read_moe(path), cars), predict(fit, cars))
#' @export
read_moe <- function(path) {
  if (!file.exists(path)) refuse(path, ": there is no such file")
  text <- readLines(path, warn = FALSE, encoding = "UTF-8")
  file <- tryCatch(fromJSON(text), error = function(e) NULL)
  if (!is.list(file) || !is.character(file$format)) refuse(path, ": no model's file")
  keep_file(list(family = family_of(file_family(file))), text)
}

#' @rdname read_moe
#' @export
write_moe <- function(fit, path) {
  beside <- tempfile("moe-", dirname(path))
  on.exit(unlink(beside))
  con <- file(beside, "wb")
  writeLines(fit$json, con, useBytes = TRUE)
  close(con)
  if (!file.rename(beside, path)) refuse(path, ": cannot be written")
  invisible(path)
}
