# Families: what R calls them, and what the command does.

# The activation that a link of R's families says.
links <- c(identity = "identity", log = "exp", logit = "sigmoid", probit = "probit", inverse = "expr: 1/z",
           cloglog = "expr: 1 - exp(-exp(z))", sqrt = "expr: z^2")

family_config <- function(family) {
  name <- family_of(family)$family
  if (name == "gaussian") NULL else list(family = name)
}

# A family as R has it: a list with family and link.
family_of <- function(family) {
  if (is.function(family)) family <- family()
  if (is.character(family) && length(family) == 1) return(list(family = family, link = NULL))
  if (!inherits(family, "family")) refuse("family: want a name, or a family such as poisson()")
  name <- switch(tolower(family$family), gamma = "gamma", quasibinomial = , quasipoisson =
                   refuse("family ", family$family, ": it has no likelihood; want poisson or binomial"),
                 tolower(family$family))
  list(family = sub("^negative binomial.*", "negative-binomial", name), link = family$link)
}

# The activation that was asked for, else the link's, else the identity for normal noise, else the family's own: the
# command knows it.
activation_of <- function(activation, family) {
  if (!is.null(activation)) return(activation)
  family <- family_of(family)
  if (is.null(family$link)) return(if (family$family == "gaussian") "identity")
  if (family$link %in% c("inverse", "1/mu^2"))
    refuse("link ", family$link, ": not finite for every predictor; want a log link, as in Gamma(link = \"log\")")
  if (!family$link %in% names(links)) refuse("link ", family$link, ": want an activation =")
  links[[family$link]]
}

file_family <- function(file) {
  family <- file$family
  if (is.null(family)) "gaussian" else if (is.list(family)) family$name else family
}

#' @export
family.moe <- function(object, ...) {
  structure(list(family = object$family$family, link = object$file$activation$name), class = "family")
}
