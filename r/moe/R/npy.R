# Tables as files that the command reads.

# Writes columns of numbers as an NPY file (version 3, whose header is UTF-8) of records of float64.
write_npy <- function(columns, path) {
  names <- enc2utf8(names(columns))
  if (any(bad <- grepl("[\\\\\n]", names) | grepl("'", names) & grepl("\"", names)))
    refuse("column ", names[bad][1], ": a name with \\, with a line's end or with both quotes; want another")
  quote <- ifelse(grepl("'", names), "\"", "'")
  n <- length(columns[[1]])
  fields <- paste0("(", quote, names, quote, ", '<f8')", collapse = ", ")
  header <- sprintf("{'descr': [%s], 'fortran_order': False, 'shape': (%.0f,), }", fields, n)
  size <- nchar(header, "bytes") + 1
  pad <- (-(12 + size)) %% 64
  con <- file(path, "wb")
  on.exit(close(con))
  writeBin(c(as.raw(0x93), charToRaw("NUMPY"), as.raw(c(3, 0))), con)
  writeBin(as.integer(size + pad), con, size = 4, endian = "little")
  writeBin(c(charToRaw(header), rep(charToRaw(" "), pad), charToRaw("\n")), con)
  writeBin(as.vector(do.call(rbind, lapply(columns, as.double))), con, size = 8, endian = "little")
}
