# Raw columns into features: factors and the terms of formulas, as a model's file has them.

# The features, n x d, of a data frame.
file_matrix <- function(file, data) {
  design <- file$design
  columns <- if (is.null(design)) file$features else design$columns
  if (is.null(design)) return(as.matrix(vapply(data[columns], as.double, numeric(nrow(data)))))
  factors <- setNames(design$factors, vapply(design$factors, `[[`, "", "name"))
  places <- lapply(factors, function(f) {
    values <- data[[f$column]]
    known <- if (is.numeric(values) && !is.null(f$numbers)) f$numbers else f$levels
    at <- match(if (is.numeric(known)) values else as.character(values), known)
    if (any(bad <- is.na(at) & !is.na(values)))
      refuse("column ", f$column, ": the model has no level ", values[bad][1], "; it has ",
           paste(f$levels, collapse = ", "))
    at
  })
  value <- function(part) {
    if (!is.null(part$level)) {
      at <- match(part$level, factors[[part$factor]]$levels)
      return(as.double(places[[part$factor]] == at))
    }
    if (!is.null(part$polynomial)) return(polynomial(part$polynomial, data))
    if (!is.null(part$expression)) return(arithmetic(part$expression, data))
    as.double(data[[part$column]])
  }
  features <- lapply(design$terms, function(term) rep_len(Reduce(`*`, lapply(term$product, value)), nrow(data)))
  matrix(unlist(features), nrow(data))
}

polynomial <- function(p, data) {
  x <- arithmetic(p$expression, data)
  before <- 0
  v <- rep(1, length(x))
  for (j in seq_along(p$alpha)) {
    after <- (x - p$alpha[j]) * v
    if (j > 1) after <- after - p$norms[j] / p$norms[j - 1] * before
    before <- v
    v <- after
  }
  v / sqrt(p$norms[length(p$norms)])
}

# An expression of columns as formulas write it: R's, of a few functions, and nothing else is evaluated.
arithmetic <- function(text, data) {
  of <- function(node) {
    if (is.numeric(node)) return(node)
    if (is.name(node)) return(as.double(data[[as.character(node)]]))
    name <- as.character(node[[1]])
    if (!name %in% c("+", "-", "*", "/", "^", "(", "log", "exp", "sqrt", "I"))
      refuse("not of the language of formulas: ", deparse(node)[1])
    do.call(name, lapply(as.list(node)[-1], of), envir = baseenv())
  }
  suppressWarnings(of(parse(text = text, keep.source = FALSE)[[1]]))
}
