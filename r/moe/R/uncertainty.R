# The parameters' uncertainty in quantiles.
#
# (m, eta, log sigma)(x) is normal around the estimates with covariance J C J', to first order; the mean over the gate's
# predictors and log sigma is a cubature of the third degree (Julier & Uhlmann 1997), and given those the experts' means
# are normal.

# Where the rows of the covariance belong: parts is a data frame of part, index (0 for all) and feature.
labels_of <- function(names, features) {
  whose <- sub(":.*", "", names)
  column <- ifelse(grepl(":", names, fixed = TRUE), sub("^[^:]*:", "", names), "")
  number <- sub("^[a-z]+", "", whose)
  data.frame(part = sub("[0-9]*$", "", whose), index = ifelse(number == "", 0L, suppressWarnings(as.integer(number))),
             feature = match(column, features), stringsAsFactors = FALSE) # NA is the intercept
}

uncertainty <- function(file, m) {
  corrected <- file$standard_errors$sigma_corrected
  list(c = file$covariance$matrix, labels = labels_of(file$covariance$parameters, file$features),
       sigma = if (length(file$sigma)) rep_len(as.double(if (is.null(corrected)) file$sigma else corrected), m$k))
}

# The derivative of a mean by its parameters: column of x, or what stands at an intercept.
column_of <- function(rows, feature) if (is.na(feature)) 1 else rows$x[, feature]

components <- function(m, rows, at) {
  labels <- m$uncertain$labels
  c <- m$uncertain$c
  n <- nrow(rows$x)
  p <- nrow(c)
  gates <- m$k - 1
  levels <- which(labels$part == "sigma")
  h <- gates + length(levels)
  hidden <- array(0, c(n, h, p))
  of_mean <- array(0, c(n, m$k, p))
  for (a in seq_len(p)) {
    index <- labels$index[a]
    experts <- if (index == 0) seq_len(m$k) else index
    switch(labels$part[a],
      gate = hidden[, index, a] <- column_of(rows, labels$feature[a]),
      sigma = hidden[, gates + match(a, levels), a] <- 1 / m$own$sigma[max(index, 1)],
      expert = of_mean[, index, a] <- at$slope[, index] * column_of(rows, labels$feature[a]),
      offset = of_mean[, experts, a] <- 1,
      scale = for (i in experts) if (m$scale[i] != 0) of_mean[, i, a] <- at$g[, i])
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
  cubature(m, logits_of(m, rows), turn_of(m, rows), at$mean, sqrt(pmax(variance, 0)), root, shift, labels$index[levels])
}

cubature <- function(m, logits, turn, means, deviation, root, shift, experts) {
  h <- dim(root)[2]
  n <- nrow(logits)
  gates <- m$k - 1
  t <- max(3, h)
  parts <- lapply(0:(2 * h), function(point) {
    along <- (point + 1) %/% 2
    by <- if (point == 0) 0 else sqrt(t) * (if (point %% 2) 1 else -1)
    off <- if (point == 0) matrix(0, n, h) else by * matrix(root[, , along], n)
    moved <- logits
    moved[, seq_len(gates)] <- moved[, seq_len(gates)] + off[, seq_len(gates)]
    sigma <- matrix(m$uncertain$sigma, n, m$k, byrow = TRUE)
    for (j in seq_along(experts)) {
      of <- if (experts[j] == 0) seq_len(m$k) else experts[j]
      sigma[, of] <- sigma[, of] * exp(pmin(off[, gates + j], 20))
    }
    list(weights = (if (point == 0) 1 - h / t else 1 / (2 * t)) * softmax(scores_of(m, moved) + turn),
         means = if (point == 0) means else means + by * matrix(shift[, along, ], n),
         deviations = sqrt(sigma^2 + deviation^2))
  })
  bind <- function(part) do.call(cbind, lapply(parts, `[[`, part))
  list(weights = bind("weights"), means = bind("means"), deviations = bind("deviations"))
}

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
