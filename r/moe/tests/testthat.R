library(testthat)
library(moe)

test_check("moe")
