# What a model's file says of rows: no process is started.
#
# With regressors a_i, gating w_i and the activation g the model of y given x is
#
#   P(z=i|x) = softmax_i(<w_i, x> + v_i),   y | x, z=i ~ N(c_i + s_i*g(<a_i, x> + b_i), sigma_i^2)
#
# or that of h(y), where the target has a scale h. A zero expert is one class more, the last, whose mean is 0. Rows are a list: x, n x d, with what else varies by row.

formats <- paste0("moe-model/v", 1:6)

# The parameters of a file as matrices, and g.
says <- function(file) {
  if (!file$format %in% formats)
    refuse("format ", file$format, ": want ", paste(formats, collapse = ", "))
  experts <- file$k
  zero <- isTRUE(file$zero_expert)
  k <- experts + zero # classes of the gate
  d <- file$d
  zeros <- function(values, n) if (length(values)) as.double(values) else rep(0, n)
  output <- file$output_scale
  if (is.null(output)) output <- list(offset = 0, scale = 1)
  leaves <- if (length(file$leaves)) file$leaves else list(file$activation)
  of_experts <- function(values, n = experts) c(rep_len(values, n), if (zero) 0)
  out <- list(k = k, d = d, experts = experts, zero = zero,
              regressors = rbind(matrix(as.double(unlist(file$regressors)), experts, d), if (zero) rep(0, d)),
              gating = matrix(as.double(unlist(file$gating)), k - 1, d),
              intercepts = of_experts(zeros(file$regressor_intercepts, experts)),
              gating_intercepts = zeros(file$gating_intercepts, k - 1), offset = of_experts(output$offset),
              scale = of_experts(output$scale),
              own = lapply(c(if (length(file$sigma)) list(sigma = file$sigma), file$own), rep_len, k),
              target_scale = if (is.null(file$target_scale)) "" else file$target_scale,
              gates = gates_of(file$hierarchy, k), family = file_family(file),
              g = lapply(leaves, activation_from, file$approximation),
              arranged = !is.null(file$arrangements$weight),
              groups = lapply(file$groups$posteriors, as.double))
  if (length(file$covariance)) out$uncertain <- uncertainty(file, out)
  out
}

# A file with the parameters by which new rows are predicted: where a gate separates rows those of its penalised model.
# What the file says of its fit stays that of the maximum.
for_new_rows <- function(file) {
  if (is.null(file$penalised)) return(file)
  of <- c("regressors", "gating", "regressor_intercepts", "gating_intercepts", "output_scale", "sigma", "own",
          "proportions", "standard_errors", "covariance")
  for (name in of) file[name] <- list(file$penalised[[name]])
  file["arrangements"] <- list(NULL)
  file
}

# Whether all can be told of the model without the command.
knows <- function(fit) {
  m <- fit$says
  !any(vapply(m$g, is.null, NA)) && !m$arranged && m$family %in% names(families)
}

# Means of the experts, n x k, with s*g', g and the index.
experts_of <- function(m, rows) {
  index <- rows$x %*% t(m$regressors) + rep(m$intercepts, each = nrow(rows$x))
  if (!is.null(rows$offset)) index <- index + rows$offset
  at <- activated(m, index)
  n <- nrow(index)
  list(mean = rep(m$offset, each = n) + rep(m$scale, each = n) * at$g, slope = rep(m$scale, each = n) * at$dg,
       g = at$g, index = index)
}

# g and g' at predictors, a column for each expert; where not all of g is known at the nearest that is, if that will do.
activated <- function(m, z, known = FALSE) {
  g <- dg <- z
  for (i in seq_len(ncol(z))) {
    of <- m$g[[(i - 1) %% length(m$g) + 1]]
    range <- if (known) attr(of, "range")
    at <- of(if (is.null(range)) z[, i] else pmin(pmax(z[, i], range[1]), range[2]))
    g[, i] <- at$g
    dg[, i] <- at$dg
  }
  list(g = g, dg = dg)
}

# The gate's predictors, n x k, the last of them 0. They have all digits, however large the gate is.
logits_of <- function(m, rows) {
  out <- matrix(0, nrow(rows$x), m$k)
  for (j in seq_len(m$k - 1)) out[, j] <- exact_dot(rows$x, m$gating[j, ], m$gating_intercepts[j])
  out
}

# <x, w> + constant with the roundings of products and sums added (Ogita, Rump & Oishi 2005).
exact_dot <- function(x, w, constant) {
  split <- function(a) {
    c <- 134217729 * a # 2^27 + 1
    high <- c - (c - a)
    list(high, a - high)
  }
  total <- rep(constant, nrow(x))
  lost <- 0 * total
  for (j in which(w != 0)) {
    product <- x[, j] * w[j]
    a <- split(x[, j])
    b <- split(w[j])
    error <- a[[2]] * b[[2]] - (((product - a[[1]] * b[[1]]) - a[[2]] * b[[1]]) - a[[1]] * b[[2]])
    after <- total + product
    other <- after - total
    rounding <- (total - (after - other)) + (product - other) + error
    lost <- lost + ifelse(is.finite(rounding), rounding, 0)
    total <- after
  }
  total + lost
}

# log P(z=i|x) of the gate's predictors, but for a constant of each row. A tree's gates come parents first, and a node's
# own score stands at its last leaf.
scores_of <- function(m, logits) {
  if (length(m$gates) == 1) return(logits)
  out <- logits
  out[, m$k] <- 0
  for (gate in m$gates) {
    z <- cbind(out[, gate$ends[-length(gate$ends)], drop = FALSE], 0)
    out[, gate$ends] <- out[, gate$node] + log_softmax(z)
  }
  out
}

# The gates of a hierarchy such as 2x(1,2), parents first: the end of the leaves of each node, those of its branches,
# and where its leaves begin. Without a hierarchy there is one.
gates_of <- function(shape, k) {
  if (k == 1) return(list())
  if (is.null(shape) || !grepl("x", shape)) return(list(list(node = k, first = 1, ends = seq_len(k))))
  token <- regmatches(shape, gregexpr("[0-9]+|x|[(),]", shape))[[1]]
  at <- 1
  gates <- list()
  read <- function(first) { # returns the last leaf of the node whose leaves begin at first
    n <- as.integer(token[at])
    at <<- at + 1
    mine <- length(gates) + 1
    gates[[mine]] <<- list()
    last <- first - 1
    ends <- integer()
    if (!identical(token[at], "x")) {
      ends <- first - 1 + seq_len(n)
      last <- first - 1 + n
    } else {
      at <<- at + 1
      listed <- token[at] == "("
      begin <- at
      for (branch in seq_len(n)) {
        at <<- if (listed) at + 1 else begin # beyond the parenthesis or the comma
        last <- read(last + 1)
        ends <- c(ends, last)
      }
      if (listed) at <<- at + 1
    }
    gates[[mine]] <<- list(node = last, first = first, ends = ends)
    last
  }
  if (read(1) != k) refuse("the hierarchy ", shape, " has not ", k, " leaves")
  Filter(function(gate) length(gate$ends) > 1, gates)
}

log_sum_exp <- function(scores) {
  top <- do.call(pmax, asplit2(scores))
  top + log(rowSums(exp(scores - top)))
}

softmax <- function(scores) {
  e <- exp(scores - do.call(pmax, asplit2(scores)))
  e / rowSums(e)
}

# Its logarithm; the largest goes first, so that large scores leave their differences all digits.
log_softmax <- function(scores) {
  scores <- scores - do.call(pmax, asplit2(scores))
  scores - log(rowSums(exp(scores)))
}

# P(z=i|x); of a row in a group that the fit has seen P(z=i|all rows of it).
gate_of <- function(m, rows) {
  out <- softmax(scores_of(m, logits_of(m, rows)))
  of_known(m, rows, out)
}

# Which rows are in groups that the fit has seen.
known_groups <- function(m, rows) which(rows$group %in% names(m$groups))

of_known <- function(m, rows, out) {
  if (length(at <- known_groups(m, rows))) out[at, ] <- do.call(rbind, m$groups[rows$group[at]])
  out
}

# What is added to the gate's scores for the groups that the fit has seen.
turn_of <- function(m, rows) {
  out <- matrix(0, nrow(rows$x), m$k)
  at <- known_groups(m, rows)
  if (!length(at)) return(out)
  bounded <- function(p) pmax(log(p), -700)
  prior <- softmax(scores_of(m, logits_of(m, rows)))
  out[at, ] <- bounded(gate_of(m, rows)[at, , drop = FALSE]) - bounded(prior[at, , drop = FALSE])
  out
}

# E[y|x], or the median of y where it has no mean, that is where 1/y is normal.
mean_of <- function(m, rows) {
  gate <- gate_of(m, rows)
  at <- experts_of(m, rows)$mean
  if (m$target_scale == "reciprocal") return(back(m, normal_quantile(gate, at, spread(m, rows)$sigma, 0.5)))
  finite(rowSums(gate * expert_mean(m, at, rows)))
}

finite <- function(mean) {
  if (any(bad <- !is.finite(mean)))
    refuse("the prediction for row ", which(bad)[1], " is ", mean[bad][1], ": its values are too large")
  mean
}

# The means of y, not of h(y), in the experts.
expert_mean <- function(m, at, rows) {
  s <- spread(m, rows)$sigma
  switch(m$target_scale, log = exp(at + s * s / 2), sqrt = at * at + s * s, at * families[[m$family]]$count(rows))
}

# The own parameters of the family, each n x k.
spread <- function(m, rows) lapply(m$own, function(v) matrix(v, nrow(rows$x), m$k, byrow = TRUE))

forth <- function(m, y) {
  if (m$target_scale != "" && any(y <= 0)) refuse(m$target_scale, " of the target: want values above 0")
  switch(m$target_scale, log = log(y), sqrt = sqrt(y), reciprocal = 1 / y, y)
}

back <- function(m, v) {
  switch(m$target_scale, log = exp(v), sqrt = pmax(v, 0)^2, reciprocal = ifelse(v > 0, 1 / v, NaN), v)
}

# log P(z=i|x) + log f_i(y|x), n x k.
log_joint <- function(m, rows, v) {
  families[[m$family]]$log_density(v, experts_of(m, rows)$mean, spread(m, rows), rows) +
    log_softmax(scores_of(m, logits_of(m, rows)))
}

# P(z=i|x,y); of rows in groups that of their group: as the fit has seen it, else by all its rows here.
posterior_of <- function(m, rows, y) {
  joint <- log_joint(m, rows, forth(m, y))
  if (is.null(rows$group)) return(softmax(joint))
  prior <- log_softmax(scores_of(m, logits_of(m, rows)))
  first <- match(rows$group, rows$group)
  together <- rowsum(joint - prior, first)
  of_known(m, rows, softmax(prior[first, , drop = FALSE] + together[match(first, rownames(together)), , drop = FALSE]))
}

log_density_of <- function(m, rows, y) {
  v <- forth(m, y)
  slope <- switch(m$target_scale, log = -v, sqrt = -log(2 * v), reciprocal = 2 * log(v), 0)
  log_sum_exp(log_joint(m, rows, v)) + slope
}

# P(Y <= y|x), and P(Y < y|x) where y is a count.
cdf_of <- function(m, rows, y, below = FALSE) {
  family <- families[[m$family]]
  v <- forth(m, y)
  if (below) v <- v - 1
  f <- rowSums(gate_of(m, rows) * family$cdf(v, experts_of(m, rows)$mean, spread(m, rows), rows))
  if (m$target_scale == "reciprocal") 1 - f else f
}

# Var[y|x].
variance_of <- function(m, rows) {
  gate <- gate_of(m, rows)
  at <- experts_of(m, rows)$mean
  s <- spread(m, rows)
  v <- s$sigma^2
  of <- switch(m$target_scale, log = exp(2 * at + v) * expm1(v), sqrt = 4 * at^2 * v + 2 * v^2, reciprocal = NaN * at,
               families[[m$family]]$variance(at, s, rows))
  means <- expert_mean(m, at, rows)
  rowSums(gate * (of + (means - rowSums(gate * means))^2))
}

draw_of <- function(m, rows) {
  gate <- gate_of(m, rows)
  n <- nrow(gate)
  z <- pmin(1 + rowSums(runif(n) > t(apply(gate, 1, cumsum))), m$k)
  at <- cbind(seq_len(n), z)
  back(m, families[[m$family]]$draw(experts_of(m, rows)$mean[at], lapply(spread(m, rows), `[`, at), rows))
}

# The q-quantile of y given x. The parameters' covariance is in it, where the file has one.
quantile_of <- function(m, rows, q) {
  at <- experts_of(m, rows)
  if (m$family != "gaussian") {
    laws <- if (!is.null(m$uncertain)) laws_of(m, rows, at)
    else list(list(which = seq_len(nrow(rows$x)), rows = rows, weights = gate_of(m, rows), means = at$mean,
                   own = spread(m, rows)))
    out <- numeric(nrow(rows$x))
    for (of in laws) out[of$which] <- law_quantile(families[[m$family]], of, q)
    return(out)
  }
  if (m$target_scale == "reciprocal") q <- 1 - q
  parts <- if (!is.null(m$uncertain)) components(m, rows, at)
  else list(weights = gate_of(m, rows), means = at$mean, deviations = spread(m, rows)$sigma)
  back(m, normal_quantile(parts$weights, parts$means, parts$deviations, q))
}

# The same of mixtures of other laws, by bisection between their own.
law_quantile <- function(family, of, q) {
  gate <- of$weights
  at <- of$means
  own <- of$own
  rows <- of$rows
  each <- family$quantile(q, at, own, rows)
  lo <- do.call(pmin, asplit2(ifelse(gate > 0, each, Inf)))
  hi <- do.call(pmax, asplit2(ifelse(gate > 0, each, -Inf)))
  enough <- function(y) rowSums(gate * family$cdf(y, at, own, rows)) >= q
  repeat {
    middle <- if (family$discrete) floor((lo + hi) / 2) else lo / 2 + hi / 2
    open <- if (family$discrete) lo < hi else middle > lo & middle < hi
    if (!any(open)) return(hi)
    up <- enough(middle)
    hi[open & up] <- middle[open & up]
    lo[open & !up] <- middle[open & !up] + family$discrete
  }
}

# y with sum_i w_i*Phi((y - m_i)/s_i) = q of every row, to the last digits but a few: Newton's steps within a bracket.
normal_quantile <- function(weights, means, deviations, q) {
  if (q > 0.5) return(-normal_quantile(weights, -means, deviations, 1 - q)) # for as many digits in the tail
  own <- means + qnorm(q) * deviations
  lo <- do.call(pmin, asplit2(ifelse(weights > 0, own, Inf)))
  hi <- do.call(pmax, asplit2(ifelse(weights > 0, own, -Inf)))
  y <- lo / 2 + hi / 2
  active <- which(lo < hi)
  for (step in seq_len(2200)) { # bisection alone crosses all numbers in fewer
    if (!length(active)) break
    w <- weights[active, , drop = FALSE]
    s <- deviations[active, , drop = FALSE]
    v <- y[active]
    standard <- (v - means[active, , drop = FALSE]) / s
    excess <- rowSums(w * pnorm(standard)) - q
    slope <- rowSums(w * dnorm(standard) / s)
    lo[active] <- ifelse(excess < 0, v, lo[active])
    hi[active] <- ifelse(excess < 0, hi[active], v)
    middle <- lo[active] / 2 + hi[active] / 2
    newton <- v - excess / slope
    inside <- is.finite(newton) & newton > lo[active] & newton < hi[active]
    after <- ifelse(excess == 0, v, ifelse(inside, newton, middle))
    y[active] <- after
    done <- abs(after - v) <= 4e-16 * pmax(abs(v), abs(after)) | hi[active] - lo[active] <= 4e-16 * abs(middle) |
      excess == 0
    active <- active[!done]
  }
  y
}

# Laws of the target given the expert's mean m and the own parameters of the family, matrices n x k, and what varies
# by row. `slopes` are the derivatives of the logarithm of the density, by the mean and by each own parameter, and
# `information` is Fisher's of the mean, whose least and largest are `domain`. `count` is what a mean is multiplied by:
# the trials, where it is a probability.
once <- function(rows) 1
tried <- function(rows) if (is.null(rows$trials)) 1 else rows$trials

families <- list(
  gaussian = list(
    log_density = function(y, m, own, rows) dnorm(y, m, own$sigma, log = TRUE),
    cdf = function(y, m, own, rows) pnorm(y, m, own$sigma),
    quantile = function(q, m, own, rows) qnorm(q, m, own$sigma),
    variance = function(m, own, rows) own$sigma^2,
    draw = function(m, own, rows) rnorm(length(m), m, own$sigma),
    slopes = function(y, m, own, rows) {
      list(mean = (y - m) / own$sigma^2, sigma = (y - m)^2 / own$sigma^3 - 1 / own$sigma)
    },
    count = once, discrete = FALSE),
  "student-t" = list(
    log_density = function(y, m, own, rows) stats::dt((y - m) / own$sigma, own$dof, log = TRUE) - log(own$sigma),
    cdf = function(y, m, own, rows) stats::pt((y - m) / own$sigma, own$dof),
    quantile = function(q, m, own, rows) m + own$sigma * stats::qt(q, own$dof),
    variance = function(m, own, rows) ifelse(own$dof > 2, own$sigma^2 * own$dof / (own$dof - 2), Inf),
    draw = function(m, own, rows) m + own$sigma * stats::rt(length(m), own$dof),
    slopes = function(y, m, own, rows) {
      e <- (y - m) / own$sigma
      nu <- own$dof
      by <- (nu + 1) * e / (nu + e^2)
      list(mean = by / own$sigma, sigma = (by * e - 1) / own$sigma,
           dof = (digamma((nu + 1) / 2) - digamma(nu / 2) - 1 / nu - log1p(e^2 / nu) + by * e / nu) / 2)
    },
    information = function(m, own, rows) (own$dof + 1) / ((own$dof + 3) * own$sigma^2) + 0 * m,
    domain = c(-Inf, Inf),
    count = once, discrete = FALSE),
  gamma = list(
    log_density = function(y, m, own, rows) stats::dgamma(y, own$shape, own$shape / m, log = TRUE),
    cdf = function(y, m, own, rows) stats::pgamma(y, own$shape, own$shape / m),
    quantile = function(q, m, own, rows) stats::qgamma(q, own$shape, own$shape / m),
    variance = function(m, own, rows) m^2 / own$shape,
    draw = function(m, own, rows) stats::rgamma(length(m), own$shape, own$shape / m),
    slopes = function(y, m, own, rows) list(mean = own$shape * (y - m) / m^2,
                                            shape = log(own$shape) - digamma(own$shape) + 1 + log(y / m) - y / m),
    information = function(m, own, rows) own$shape / m / m,
    domain = c(.Machine$double.xmin, Inf),
    count = once, discrete = FALSE),
  poisson = list(
    log_density = function(y, m, own, rows) stats::dpois(y, m, log = TRUE),
    cdf = function(y, m, own, rows) stats::ppois(y, m),
    quantile = function(q, m, own, rows) stats::qpois(q, m),
    variance = function(m, own, rows) m,
    draw = function(m, own, rows) stats::rpois(length(m), m),
    slopes = function(y, m, own, rows) list(mean = y / m - 1),
    information = function(m, own, rows) 1 / m,
    domain = c(.Machine$double.xmin, Inf),
    count = once, discrete = TRUE),
  "negative-binomial" = list(
    log_density = function(y, m, own, rows) stats::dnbinom(y, own$theta, mu = m, log = TRUE),
    cdf = function(y, m, own, rows) stats::pnbinom(y, own$theta, mu = m),
    quantile = function(q, m, own, rows) stats::qnbinom(q, own$theta, mu = m),
    variance = function(m, own, rows) m + m^2 / own$theta,
    draw = function(m, own, rows) stats::rnbinom(length(m), own$theta, mu = m),
    slopes = function(y, m, own, rows) {
      theta <- own$theta
      list(mean = theta * (y / m - 1) / (theta + m),
           theta = digamma(y + theta) - digamma(theta) - log1p(m / theta) - (y - m) / (m + theta))
    },
    information = function(m, own, rows) own$theta / (m + own$theta) / m,
    domain = c(.Machine$double.xmin, Inf),
    count = once, discrete = TRUE),
  binomial = list(
    log_density = function(y, m, own, rows) stats::dbinom(y, tried(rows), m, log = TRUE),
    cdf = function(y, m, own, rows) stats::pbinom(y, tried(rows), m),
    quantile = function(q, m, own, rows) stats::qbinom(q, tried(rows), m),
    variance = function(m, own, rows) tried(rows) * m * (1 - m),
    draw = function(m, own, rows) stats::rbinom(length(m), tried(rows), m),
    slopes = function(y, m, own, rows) list(mean = (y - tried(rows) * m) / (m * (1 - m))),
    information = function(m, own, rows) tried(rows) / (m * (1 - m)),
    domain = c(.Machine$double.xmin, 1 - 2^-53),
    count = tried, discrete = TRUE)
)
