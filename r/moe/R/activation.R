# Activations: g and its derivative, from what a model's file has of them. Each is a function z -> list(g, dg).

# The activation of a file's entry; NULL where the file has too little of it.
activation_from <- function(entry, approximation = NULL) {
  name <- entry$name
  params <- as.list(entry$params)
  if (name %in% names(builtins)) return(do.call(builtins[[name]], params))
  if (startsWith(name, "expr:")) return(expression_from(sub("^expr:", "", name), params))
  if (!is.null(entry$table)) return(with(entry$table, curve_through(z, g, slopes)))
  if (!is.null(approximation)) approximation_from(approximation)
}

relu <- function(slope = 0) function(z) list(g = ifelse(z > 0, z, slope * z), dg = ifelse(z > 0, 1, slope))

sigmoid_at <- function(z) {
  p <- stats::plogis(z)
  list(g = p, dg = p * stats::plogis(-z))
}

tanh_at <- function(z) {
  g <- tanh(z)
  list(g = g, dg = (1 - g) * (1 + g))
}

exp_at <- function(z) {
  dg <- exp(pmin(z, 600))
  list(g = ifelse(z > 600, 1 + (z - 600), 1) * dg, dg = dg)
}

# log(1 + exp(z)) without overflow.
softplus <- function(z) pmax(z, 0) + log1p(exp(-abs(z)))

softplus_at <- function(beta = 1) function(z) list(g = softplus(beta * z) / beta, dg = stats::plogis(beta * z))

probit_at <- function(z) list(g = pnorm(z), dg = dnorm(z))

builtins <- list(
  identity = function() function(z) list(g = z, dg = rep(1, length(z))),
  relu = function() relu(),
  leakyrelu = function(slope = 0.01) relu(slope),
  sigmoid = function() sigmoid_at,
  tanh = function() tanh_at,
  exp = function() exp_at,
  softplus = softplus_at,
  probit = function() probit_at
)

erf <- function(v) 2 * pnorm(v * sqrt(2)) - 1

# Of the functions of expressions: value and derivative.
functions <- list(
  exp = function(v) list(exp(v), exp(v)),
  log = function(v) list(log(v), 1 / v),
  log1p = function(v) list(log1p(v), 1 / (1 + v)),
  expm1 = function(v) list(expm1(v), exp(v)),
  sqrt = function(v) list(sqrt(v), 0.5 / sqrt(v)),
  cbrt = function(v) list(sign(v) * abs(v)^(1 / 3), abs(v)^(-2 / 3) / 3),
  abs = function(v) list(abs(v), sign(v)),
  tanh = function(v) unname(tanh_at(v)),
  sinh = function(v) list(sinh(v), cosh(v)),
  cosh = function(v) list(cosh(v), sinh(v)),
  atan = function(v) list(atan(v), 1 / (1 + v * v)),
  erf = function(v) list(erf_exact(v), 2 / sqrt(pi) * exp(-v * v)),
  erfc = function(v) list(2 * pnorm(-v * sqrt(2)), -2 / sqrt(pi) * exp(-v * v)),
  Phi = function(v) list(pnorm(v), dnorm(v)),
  softplus = function(v) list(softplus(v), stats::plogis(v)),
  sigmoid = function(v) unname(sigmoid_at(v)),
  sign = function(v) list(sign(v), 0 * v)
)

# erf to all digits near 0 too, where 2*Phi - 1 cancels: the incomplete gamma function of 1/2.
erf_exact <- function(v) sign(v) * stats::pgamma(v * v, 0.5)

# d*v, 0 where d is, whatever v is.
times <- function(d, v) {
  out <- d * v
  out[rep_len(d == 0, length(out))] <- 0
  out
}

# The function of an expression's text. R's parser has the language's operations and their order; what it parses is
# walked here, and nothing of it is evaluated as R.
expression_from <- function(text, params) {
  for (word in list(c("and", "&"), c("or", "|"), c("not", "!")))
    text <- gsub(paste0("\\b", word[1], "\\b"), word[2], text)
  tree <- parse(text = text, keep.source = FALSE)[[1]]
  unknown <- function(node) refuse("not of the language of expressions: ", deparse(node)[1])
  condition <- function(node, z) {
    if (!is.call(node)) unknown(node)
    name <- as.character(node[[1]])
    if (name == "(") return(condition(node[[2]], z))
    if (name == "!") return(!condition(node[[2]], z))
    if (name %in% c("&", "|")) return(get(name)(condition(node[[2]], z), condition(node[[3]], z)))
    if (!name %in% c("<", "<=", ">", ">=", "==")) unknown(node)
    get(name)(of(node[[2]], z)[[1]], of(node[[3]], z)[[1]])
  }
  of <- function(node, z) {
    if (is.numeric(node)) return(list(as.double(node), 0))
    if (is.name(node)) {
      name <- as.character(node)
      if (name == "z") return(list(z, 1))
      if (is.null(params[[name]])) unknown(node)
      return(list(params[[name]], 0))
    }
    if (!is.call(node) || !is.name(node[[1]]) || length(node) < 2) unknown(node)
    name <- as.character(node[[1]])
    if (name == "where") {
      at <- rep_len(condition(node[[2]], z), length(z))
      a <- of(node[[3]], z)
      b <- of(node[[4]], z)
      return(list(ifelse(at, a[[1]], b[[1]]), ifelse(at, a[[2]], b[[2]])))
    }
    args <- lapply(as.list(node)[-1], of, z = z)
    a <- args[[1]][[1]]
    da <- args[[1]][[2]]
    if (length(args) == 1) {
      if (name == "-") return(list(-a, -da))
      if (name %in% c("+", "(")) return(args[[1]])
      if (is.null(functions[[name]])) unknown(node)
      value <- functions[[name]](a)
      return(list(value[[1]], times(da, value[[2]])))
    }
    b <- args[[2]][[1]]
    db <- args[[2]][[2]]
    switch(name,
      "+" = list(a + b, da + db),
      "-" = list(a - b, da - db),
      "*" = list(a * b, times(da, b) + times(db, a)),
      "/" = list(a / b, da / b - times(db, a / (b * b))),
      "^" = list(a^b, times(da, b * a^(b - 1)) + if (all(db == 0)) 0 else times(db, a^b * log(a))),
      min = list(ifelse(a < b, a, b), ifelse(a < b, da, db)),
      max = list(ifelse(a > b, a, b), ifelse(a > b, da, db)),
      unknown(node))
  }
  function(z) {
    value <- suppressWarnings(of(tree, z))
    list(g = rep_len(value[[1]], length(z)), dg = rep_len(value[[2]], length(z)))
  }
}

# The curve through points with slopes: a cubic on each interval, lines beyond.
curve_through <- function(x, g, slopes) function(z) {
  i <- pmin(pmax(findInterval(z, x), 1), length(x) - 1)
  h <- x[i + 1] - x[i]
  chord <- (g[i + 1] - g[i]) / h
  t <- z - x[i]
  second <- (3 * chord - 2 * slopes[i] - slopes[i + 1]) / h
  third <- (slopes[i] + slopes[i + 1] - 2 * chord) / (h * h)
  value <- g[i] + t * (slopes[i] + t * (second + t * third))
  slope <- slopes[i] + t * (2 * second + 3 * t * third)
  for (end in c(1, length(x))) {
    beyond <- if (end == 1) z < x[1] else z > x[end]
    value[beyond] <- g[end] + slopes[end] * (z[beyond] - x[end])
    slope[beyond] <- slopes[end]
  }
  list(g = value, dg = slope)
}

# g and g' as the piecewise polynomials of a file; beyond their range there is nothing.
approximation_from <- function(member) {
  if (member$version != 1) return(NULL)
  table <- function(part) {
    ends <- cumsum(part$terms)
    coefficients <- matrix(0, length(part$terms), max(part$terms))
    for (i in seq_along(ends))
      coefficients[i, seq_len(part$terms[i])] <- part$coefficients[ends[i] - part$terms[i] + seq_len(part$terms[i])]
    left <- part$edges[-length(part$edges)]
    right <- part$edges[-1]
    wide <- part$terms > 2
    list(edges = part$edges, centre = ifelse(wide, (left + right) / 2, 0), slope = ifelse(wide, 2 / (right - left), 1),
         coefficients = coefficients)
  }
  tables <- lapply(member[c("value", "derivative")], table)
  at <- function(z, table) {
    range <- range(table$edges)
    if (any(outside <- z < range[1] | z >= range[2]))
      refuse("g(", z[outside][1], "): the model's file has the activation from ", range[1], " to ", range[2])
    i <- findInterval(z, table$edges)
    t <- (z - table$centre[i]) * table$slope[i]
    value <- 0 * t
    for (j in rev(seq_len(ncol(table$coefficients)))) value <- value * t + table$coefficients[i, j]
    value
  }
  edges <- lapply(tables, function(table) range(table$edges))
  lo <- max(edges$value[1], edges$derivative[1])
  hi <- min(edges$value[2], edges$derivative[2])
  structure(function(z) list(g = at(z, tables$value), dg = at(z, tables$derivative)),
            range = c(lo, hi - abs(hi) * 2^-52 - .Machine$double.xmin))
}
