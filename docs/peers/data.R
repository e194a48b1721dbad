#!/usr/bin/env Rscript
# Writes the public data sets of docs/studies/peers.md to the working directory.
suppressMessages(library(flexmix))
write.table2 <- function(d, file) write.csv(d, file, row.names = FALSE, quote = FALSE)
data(NPreg); write.table2(data.frame(x = NPreg$x, x2 = NPreg$x^2, y = NPreg$yn), "npreg.csv")
data(CO2data, package = "mixtools"); write.table2(CO2data[, c("GNP", "CO2")], "co2.csv")
data(whiteside, package = "MASS"); write.table2(whiteside[, c("Temp", "Gas")], "whiteside.csv")
write.table2(faithful[, c("waiting", "eruptions")], "faithful.csv")
