skip_without_command <- function() skip_if_not(moe_available(quietly = TRUE), "there is no command moe")

# Runs the command itself: the oracle of what the package computes.
command <- function(...) {
  args <- c(...)
  said <- system2(moe_command(), shQuote(args), stdout = TRUE, stderr = TRUE)
  if (!is.null(attr(said, "status")) && attr(said, "status") > 1) stop(paste(said, collapse = "\n"))
  said
}

# Rows of three features from two linear experts under a soft gate.
mixture <- function(n = 400, seed = 0, noise = 0.3) {
  set.seed(seed)
  d <- data.frame(x1 = rnorm(n), x2 = rnorm(n), x3 = rnorm(n))
  first <- runif(n) < plogis(2 * d$x1 + 0.5)
  d$y <- ifelse(first, 1 + 2 * d$x1 + d$x3, -d$x1 + d$x2) + noise * rnorm(n)
  d
}

quiet <- function(expr) suppressWarnings(expr)

read <- function(path) read.csv(path, check.names = FALSE)

# Largest difference, relative to 1 and the size of what is wanted.
gap <- function(got, want) max(abs(unname(as.matrix(got)) - unname(as.matrix(want))) / (1 + abs(as.matrix(want))))

# The command lines of a process's children, by /proc.
children <- function(pid) {
  ids <- scan(sprintf("/proc/%d/task/%d/children", pid, pid), "", quiet = TRUE)
  vapply(ids, function(id) {
    none <- function(e) raw()
    line <- tryCatch(readBin(file.path("/proc", id, "cmdline"), "raw", 1e4), error = none, warning = none)
    line[line == 0] <- as.raw(32)
    rawToChar(line)
  }, "")
}

# Runs an expression where processx is not to be had.
with_mocked_run <- function(expr) {
  space <- asNamespace("moe")
  own <- get("run", space)
  other <- own
  environment(other) <- list2env(list(requireNamespace = function(...) FALSE), parent = space)
  put <- function(value) {
    unlockBinding("run", space)
    assign("run", value, space)
    lockBinding("run", space)
  }
  put(other)
  on.exit(put(own))
  expr
}
