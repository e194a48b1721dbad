#!/usr/bin/env Rscript
# Writes the three tables of docs/cases.md to the working directory.
w <- function(d, file) write.csv(d, file, row.names = FALSE, quote = FALSE)
data(CPS1988, package = "AER")
w(cbind(logwage = log(CPS1988$wage), CPS1988[, -1]), "cps1988.csv")
data(NMES1988, package = "AER")
w(NMES1988[, c("visits", "hospital", "health", "chronic", "adl", "age", "gender", "school", "income", "insurance", "medicaid")],
  "nmes1988.csv")
d <- as.data.frame(ggplot2::diamonds)
d <- d[d$x > 0 & d$y > 0 & d$z > 0, ]
w(data.frame(logprice = log(d$price), logcarat = log(d$carat), d[, c("cut", "color", "clarity")]), "diamonds.csv")
