#!/usr/bin/env Rscript
# Writes the tables of the bar in docs/studies/peers.md to the working directory, one CSV each with
# the target last, and prints their names: the data frames of datasets, MASS, mlbench and
# AER in alphabetical order (of the C locale) of which the numeric columns have 30 to
# 1,000 complete rows and 1 to 13 features, the last of them the target, until there are
# 40; none that docs/studies/peers.md has already.
have <- c("faithful", "whiteside", "CO2", "NPreg")
found <- list()
for (package in c("datasets", "MASS", "mlbench", "AER")) {
  for (item in data(package = package)$results[, "Item"]) {
    name <- sub(" .*", "", item)
    file <- if (grepl("(", item, fixed = TRUE)) sub(".*\\((.*)\\)", "\\1", item) else name
    room <- new.env()
    suppressWarnings(try(data(list = file, package = package, envir = room), silent = TRUE))
    table <- room[[name]]
    if (name %in% have || !is.data.frame(table)) next
    table <- as.data.frame(lapply(as.data.frame(table)[sapply(table, is.numeric)], as.numeric))
    table <- table[complete.cases(table), , drop = FALSE]
    if (nrow(table) < 30 || nrow(table) > 1000 || ncol(table) < 2 || ncol(table) > 14) next
    if (is.null(found[[name]])) found[[name]] <- table
  }
}
for (name in head(sort(names(found), method = "radix"), 40)) {
  write.csv(found[[name]], paste0(name, ".csv"), row.names = FALSE, quote = FALSE)
  cat(name, nrow(found[[name]]), ncol(found[[name]]) - 1, "\n")
}
