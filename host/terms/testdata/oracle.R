# Rscript oracle.R > oracle.txt, beside data.csv: the design matrices of R for the
# formulas that TestModelMatrix compares with. Factors are relevelled to the
# commonest level, of several the first in byte order. A formula with a bar is two,
# as packages that fit in two parts have it.
data <- read.csv("data.csv", stringsAsFactors = TRUE)
relevelled <- function(f) {
    n <- table(f)
    common <- sort(names(n)[n == max(n)], method = "radix")[1]
    relevel(f, ref = common)
}
data$sex <- relevelled(data$sex)
data$site <- relevelled(data$site)
factor <- function(x) relevelled(base::factor(x))
formulas <- c(
    "y ~ x1", "y ~ x1 + x2", "y ~ x1 - 1", "y ~ 0 + x1 + sex", "y ~ sex", "y ~ site", "y ~ site - 1", "y ~ sex + site - 1",
    "y ~ .", "y ~ . - x3", "y ~ x1 * x2", "y ~ x1 * sex", "y ~ x1:sex", "y ~ x1 + x1:sex", "y ~ sex:site", "y ~ sex * site",
    "y ~ sex + sex:site", "y ~ sex:site - 1", "y ~ x1 * sex * site", "y ~ (x1 + sex + site)^2", "y ~ x1 * sex - x1", "y ~ log(x4)",
    "y ~ exp(x1) + sqrt(x3)", "y ~ poly(x3, 2)", "y ~ poly(x3,3)*sex", "y ~ I(x1^2) + I(x1*x2)", "y ~ I((x1 - x2)/x3)", "y ~ log(x4 + 1):site",
    "y ~ factor(dose)", "y ~ factor(dose) * x1 - 1", "y ~ dose + factor(dose):x1", "y ~ poly(log(x4), 2)", "y ~ poly(x1, 1)", "y ~ site:x1 + x2:x1 + x1",
    "y ~ I(-x1^2) + I(2*x1 - 1)", "y ~ x2 + sex + x1:x2 + x2:x1 + sex", "y ~ x1 + x2 + sex + x1:x2 + poly(x3,2) + log(x4) | x1 + sex",
    "y ~ sex * x1 | site - 1", "y ~ x1 | 1", "y ~ sex - 1 | .")
options(digits = 17)
for (f in formulas) {
    sides <- strsplit(sub("^y ~", "", f), "|", fixed = TRUE)[[1]]
    for (i in seq_along(sides)) {
        m <- model.matrix(as.formula(paste("y ~", sides[i])), data)
        cat("formula", f, "\n")
        cat("part", i, "\n")
        cat(paste(colnames(m), collapse = "\t"), "\n", sep = "")
        for (r in seq_len(nrow(m))) cat(paste(formatC(m[r, ], digits = 17, width = 1, format = "g"), collapse = "\t"), "\n", sep = "")
    }
}
