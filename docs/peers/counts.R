#!/usr/bin/env Rscript
# Writes the tables of counts and of answers in docs/studies/families.md to the working
# directory, one CSV each with the target last, and prints their names. They are of the data
# frames of datasets, MASS, AER, pscl, survival, boot, carData and lme4, in alphabetical order (of
# the C locale), of 100 to 1,000 complete rows. A count is a numeric column of whole numbers,
# the least of them 0, the largest at most 1,000, of which
# at least 5 differ; an answer is a column of two values, each on at
# least 20 rows. A table has the last such column for its target, which is numeric or becomes 0 and
# 1, and the other numeric columns for 1 to 8 features. The first 12 of
# either kind are taken, none twice under two names.
found <- list(poisson = list(), binomial = list())
for (package in c("datasets", "MASS", "AER", "pscl", "survival", "boot", "carData", "lme4")) {
  for (item in data(package = package)$results[, "Item"]) {
    name <- sub(" .*", "", item)
    file <- if (grepl("(", item, fixed = TRUE)) sub(".*\\((.*)\\)", "\\1", item) else name
    room <- new.env()
    suppressWarnings(try(data(list = file, package = package, envir = room), silent = TRUE))
    table <- room[[name]]
    if (!is.data.frame(table)) next
    table <- as.data.frame(table)
    table <- table[complete.cases(table), , drop = FALSE]
    if (nrow(table) < 100 || nrow(table) > 1000) next
    numeric <- sapply(table, is.numeric)
    values <- sapply(table, function(v) length(unique(v)))
    count <- sapply(table, function(v) is.numeric(v) && min(v) == 0 && all(v == floor(v)) && max(v) <= 1000) & values >= 5
    answer <- values == 2
    for (family in names(found)) {
      target <- tail(which(if (family == "poisson") count else answer), 1)
      features <- setdiff(which(numeric & values > 1), target)
      if (length(target) == 0 || length(features) < 1 || length(features) > 8 || !is.null(found[[family]][[name]])) next
      y <- table[[target]]
      if (family == "binomial") y <- as.numeric(y == max(as.character(y)))
      if (family == "binomial" && (sum(y) < 20 || sum(1 - y) < 20)) next
      made <- cbind(as.data.frame(lapply(table[features], as.numeric)), .y = as.numeric(y))
      names(made)[length(features) + 1] <- names(table)[target]
      if (!any(sapply(found[[family]], function(old) all(dim(old) == dim(made)) && all(old == made)))) found[[family]][[name]] <- made
    }
  }
}
for (family in names(found)) for (name in head(sort(names(found[[family]]), method = "radix"), 12)) {
  table <- found[[family]][[name]]
  write.csv(table, paste0(family, "-", name, ".csv"), row.names = FALSE, quote = FALSE)
  cat(family, name, nrow(table), ncol(table) - 1, tail(names(table), 1), "\n")
}
