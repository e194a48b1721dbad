# The parameters' uncertainty in quantiles.
#
# (m, eta, log sigma)(x) is normal around the estimates with covariance J C J', to first order; the mean over the gate's
# predictors and log sigma is a cubature of the third degree (Julier & Uhlmann 1997), and given those the experts' means
# are normal, with variances as sigma squared. The covariance is taken from sigma of the maximum to sigma as it is
# corrected, and (estimate / sigma)^(2/3) is what is normal of sigma (Wilson & Hilferty 1931). Of other families than
# normal noise the predictors are normal, in the place of the means.

# Where the rows of the covariance belong: parts is a data frame of part, index (0 for all) and feature.
labels_of <- function(names, features) {
  whose <- sub(":.*", "", names)
  column <- ifelse(grepl(":", names, fixed = TRUE), sub("^[^:]*:", "", names), "")
  number <- sub("^[a-z]+", "", whose)
  data.frame(part = sub("[0-9]*$", "", whose), index = ifelse(number == "", 0L, suppressWarnings(as.integer(number))),
             feature = match(column, features), stringsAsFactors = FALSE) # NA is the intercept
}

# What own parameters may be, and whether it is their reciprocals that are nearly normal, and not their logarithms.
own_limits <- list(sigma = c(0, Inf), dof = c(1, 1000), shape = c(1e-4, 1e12), theta = c(1e-6, 1e8))
by_reciprocal <- c("dof", "theta")

uncertainty <- function(file, m) {
  corrected <- file$standard_errors$sigma_corrected
  own <- m$own
  if (length(file$sigma) && !is.null(corrected)) own$sigma <- rep_len(as.double(corrected), m$k)
  dispersion <- file$standard_errors$dispersion_corrected
  if (!is.null(dispersion)) own[[1]] <- rep_len(as.double(dispersion), m$k)
  of <- list(c = file$covariance$matrix, labels = labels_of(file$covariance$parameters, file$features), own = own)
  of$corrected <- of$c
  of$spread <- numeric(nrow(of$c)) # the variance of log sigma of normal noise; 0 of all other parameters
  if (m$family == "gaussian") of <- corrected_of(of, m)
  of
}

# The uncertainty with the covariance of sigma as it is corrected.
corrected_of <- function(of, m) {
  labels <- of$labels
  ratio <- of$own$sigma / m$own$sigma
  by <- vapply(seq_len(nrow(of$c)), function(a) {
    if (labels$part[a] == "gate") 1
    else if (labels$index[a] > 0) ratio[labels$index[a]]
    else max(ratio)
  }, 0)
  of$corrected <- of$c * outer(by, by)
  sigmas <- which(labels$part == "sigma")
  of$spread[sigmas] <- diag(of$corrected)[sigmas] / m$own$sigma[pmax(labels$index[sigmas], 1)]^2
  of
}

# The derivative of a mean by its parameters: column of x, or what stands at an intercept.
column_of <- function(rows, feature) if (is.na(feature)) 1 else rows$x[, feature]

# How the hidden, the gate's predictors and the own parameters, lie around the estimates of every row: the factor of
# their covariance, what the experts' means, of derivatives `slope` and `g`, move with them, and their own deviations.
around_of <- function(m, rows, slope, g) {
  labels <- m$uncertain$labels
  c <- m$uncertain$corrected
  n <- nrow(rows$x)
  p <- nrow(c)
  gates <- m$k - 1
  levels <- which(labels$part %in% names(m$own))
  h <- gates + length(levels)
  hidden <- array(0, c(n, h, p))
  of_mean <- array(0, c(n, m$k, p))
  for (a in seq_len(p)) {
    index <- labels$index[a]
    part <- labels$part[a]
    experts <- if (index == 0) seq_len(m$k) else index
    switch(part,
      gate = hidden[, index, a] <- column_of(rows, labels$feature[a]),
      expert = of_mean[, index, a] <- slope[, index] * column_of(rows, labels$feature[a]),
      offset = of_mean[, experts, a] <- 1,
      scale = for (i in experts) if (m$scale[i] != 0) of_mean[, i, a] <- g[, i],
      {
        psi <- m$own[[part]][max(index, 1)]
        hidden[, gates + match(a, levels), a] <- if (part %in% by_reciprocal) -1 / psi^2 else 1 / psi
      })
  }
  flat <- function(a) matrix(a, ncol = p)
  turned <- array(flat(hidden) %*% c, dim(hidden))
  pairs <- function(a, b) { # sums over the last dimension of every row
    out <- array(0, c(n, dim(a)[2], dim(b)[2]))
    for (i in seq_len(dim(a)[2])) for (j in seq_len(dim(b)[2]))
      out[, i, j] <- rowSums(matrix(a[, i, ], n) * matrix(b[, j, ], n))
    out
  }
  root <- factor_of(pairs(turned, hidden))
  shift <- forward(root, pairs(turned, of_mean))
  own <- array(flat(of_mean) %*% c, dim(of_mean)) * of_mean
  variance <- apply(own, 1:2, sum) - apply(shift^2, c(1, 3), sum)
  list(root = root, shift = shift, deviation = sqrt(pmax(variance, 0)), levels = levels)
}

# The points of the cubature: of each the classes' probabilities times its weight, what the means move, and the own
# parameters, all n x k.
cubature <- function(m, rows, around) {
  logits <- logits_of(m, rows)
  turn <- turn_of(m, rows)
  labels <- m$uncertain$labels
  h <- dim(around$root)[2]
  n <- nrow(logits)
  gates <- m$k - 1
  t <- max(3, h)
  lapply(0:(2 * h), function(point) {
    along <- (point + 1) %/% 2
    by <- if (point == 0) 0 else sqrt(t) * (if (point %% 2) 1 else -1)
    off <- if (point == 0) matrix(0, n, h) else by * matrix(around$root[, , along], n)
    moved <- logits
    moved[, seq_len(gates)] <- moved[, seq_len(gates)] + off[, seq_len(gates)]
    own <- lapply(m$uncertain$own, function(v) matrix(v, n, m$k, byrow = TRUE))
    for (j in seq_along(around$levels)) {
      level <- around$levels[j]
      of <- if (labels$index[level] == 0) seq_len(m$k) else labels$index[level]
      name <- labels$part[level]
      own[[name]][, of] <- moved_own(name, own[[name]][, of], off[, gates + j], m$uncertain$spread[level])
    }
    list(weights = (if (point == 0) 1 - h / t else 1 / (2 * t)) * softmax(scores_of(m, moved) + turn),
         moved = if (point == 0) 0 else by * matrix(around$shift[, along, ], n), own = own)
  })
}

# An own parameter of which the reciprocal, or the logarithm, is moved; of normal noise, of that variance of log sigma,
# it is (1/sigma)^(2/3).
moved_own <- function(name, psi, by, spread) {
  limits <- own_limits[[name]]
  moved <- if (spread > 0) psi * pmax(1 - 4 * spread / 9 - 2 * by / 3, 0.14)^-1.5
    else if (name %in% by_reciprocal) 1 / pmax(1 / psi + by, 1 / limits[2]) else psi * exp(pmin(by, 20))
  pmin(pmax(moved, limits[1]), limits[2])
}

bind <- function(parts, of) do.call(cbind, lapply(parts, of))

# The normal laws that y is a mixture of.
components <- function(m, rows, at) {
  around <- around_of(m, rows, at$slope, at$g)
  points <- cubature(m, rows, around)
  list(weights = bind(points, function(of) of$weights), means = bind(points, function(of) at$mean + of$moved),
       deviations = bind(points, function(of) {
         sigma <- matrix(m$uncertain$own$sigma, nrow(rows$x), m$k, byrow = TRUE)
         of$own$sigma / sigma * sqrt(sigma^2 + around$deviation^2)
       }))
}

# The laws of another family that y is a mixture of, of rows whose rules have as many nodes: given the hidden it is the
# experts' predictors that are normal, and the law of y is the mean over a rule for them.
laws_of <- function(m, rows, at) {
  experts <- seq_len(m$experts)
  around <- around_of(m, rows, 1 + 0 * at$index, NULL)
  around$deviation <- widened(m, at$mean, around$deviation)
  half <- halves_of(m, rows, at$index[, experts, drop = FALSE], around$deviation[, experts, drop = FALSE])
  domain <- families[[m$family]]$domain
  lapply(unique(half), function(size) {
    here <- which(half == size)
    pick <- function(v) v[here, experts, drop = FALSE]
    some <- rows_at(rows, here)
    rule <- rule_of(size)
    mean <- pick(at$mean)
    most <- exp(20) * pmax(abs(mean), 1)
    some_around <- list(root = around$root[here, , , drop = FALSE], shift = around$shift[here, , , drop = FALSE],
                        levels = around$levels)
    parts <- list()
    for (of in cubature(m, some, some_around)) {
      moved <- if (is.matrix(of$moved)) of$moved[, experts, drop = FALSE] else 0
      own <- lapply(of$own, function(v) v[, experts, drop = FALSE])
      for (j in seq_along(rule$nodes)) {
        z <- pick(at$index) + moved + rule$nodes[j] * pick(around$deviation)
        g <- activated(m, z, known = TRUE)$g
        g[is.nan(g)] <- mean[is.nan(g)]
        g[] <- pmin(pmax(pmin(pmax(g, -most), most), domain[1]), domain[2])
        weights <- rule$weights[j] * of$weights[, experts, drop = FALSE]
        parts[[length(parts) + 1]] <- list(weights = weights, means = g, own = own)
      }
      if (m$zero) # what is always 0
        parts[[length(parts) + 1]] <- list(weights = of$weights[, m$k], means = rep(0, length(here)),
                                           own = lapply(own, function(v) v[, 1]))
    }
    list(which = here, rows = some, weights = bind(parts, function(of) of$weights),
         means = bind(parts, function(of) of$means),
         own = sapply(names(m$own), function(name) bind(parts, function(of) of$own[[name]]), simplify = FALSE))
  })
}

# Deviations of predictors by the own parameters as they are corrected; the covariance is of the maximum's.
widened <- function(m, mean, deviation) {
  told <- function(own) families[[m$family]]$information(mean, lapply(own, function(v) matrix(v, nrow(mean), ncol(mean), byrow = TRUE)), NULL)
  if (identical(m$own, m$uncertain$own)) return(deviation)
  ratio <- told(m$own) / told(m$uncertain$own)
  ratio[!(is.finite(ratio) & ratio > 0)] <- 1
  deviation * sqrt(ratio)
}

# How many nodes the rules of the rows want to either side: by what the law of y tells of a predictor beside what is
# known of it.
halves_of <- function(m, rows, z, deviation) {
  family <- families[[m$family]]
  own <- lapply(m$uncertain$own, function(v) matrix(v[seq_len(m$experts)], nrow(z), m$experts, byrow = TRUE))
  ratio <- rep(0, nrow(z)) # squared
  for (t in c(-sqrt(3), 0, sqrt(3))) {
    at <- activated(m, z + t * deviation, known = TRUE)
    told <- (at$dg * deviation)^2 * family$information(at$g, own, rows)
    told[is.na(told) | !(at$g > family$domain[1] & at$g < family$domain[2])] <- 0
    ratio <- pmax(ratio, do.call(pmax, asplit2(told)))
  }
  ifelse(ratio > 0.25, pmin(ceiling(4 * sqrt(1 + ratio)), 40), 1)
}

# Nodes and weights for N(0, 1): Gauss and Hermite's three, or the trapezoidal rule from -5 to 5.
rule_of <- function(half) {
  if (half == 1) return(list(nodes = sqrt(3) * -1:1, weights = c(1, 4, 1) / 6))
  nodes <- 5 * (-half:half) / half
  weights <- exp(-nodes^2 / 2)
  list(nodes = nodes, weights = weights / sum(weights))
}

rows_at <- function(rows, at) lapply(rows, function(v) if (is.matrix(v)) v[at, , drop = FALSE] else v[at])

# a/b for every row, 0 where b is not above 0.
over <- function(a, b) {
  a[rep_len(b <= 0, length(a))] <- 0
  a / ifelse(b > 0, b, 1)
}

# Cholesky's factor of every row's matrix; what depends on the others has 0 on the diagonal.
factor_of <- function(c) {
  root <- 0 * c
  n <- dim(c)[1]
  before <- function(i, j) matrix(root[, i, seq_len(j - 1)], n)
  for (i in seq_len(dim(c)[2])) for (j in seq_len(i)) {
    v <- c[, i, j] - rowSums(before(i, j) * before(j, j))
    root[, i, j] <- if (i == j) sqrt(ifelse(v > 1e-12 * c[, i, i], v, 0)) else over(v, root[, j, j])
  }
  root
}

# root^-1 b of every row, 0 where the diagonal is.
forward <- function(root, b) {
  out <- 0 * b
  n <- dim(b)[1]
  for (j in seq_len(dim(root)[2])) {
    rest <- matrix(b[, j, ], n)
    for (i in seq_len(j - 1)) rest <- rest - root[, j, i] * matrix(out[, i, ], n)
    out[, j, ] <- over(rest, root[, j, j])
  }
  out
}
