test_that("a table's file is what NPY's format says", {
  path <- tempfile()
  moe:::write_npy(list("a" = c(1, 2.5), "b'\u00e9" = c(-1, NaN)), path)
  bytes <- readBin(path, "raw", 1000)
  expect_equal(bytes[1:8], as.raw(c(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 3, 0)))
  size <- readBin(bytes[9:12], "integer", size = 4, endian = "little")
  expect_equal((12 + size) %% 64, 0)
  header <- rawToChar(bytes[12 + seq_len(size)])
  Encoding(header) <- "UTF-8"
  want <- "{'descr': [('a', '<f8'), (\"b'\u00e9\", '<f8')], 'fortran_order': False, 'shape': (2,), }"
  expect_match(header, want, fixed = TRUE)
  expect_equal(readBin(bytes[-seq_len(12 + size)], "double", 4, endian = "little"), c(1, -1, 2.5, NaN))
  expect_error(moe:::write_npy(list("a\\b" = 1), path), "want another")
})
