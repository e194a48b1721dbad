# Runs the R of pages: every block between ```r and ``` is a session, whose lines that begin with > or + are entered,
# one block after the other, and what R prints is held against the lines below them.
#
#   Rscript r/pages.R PAGE...            says where they differ
#   Rscript r/pages.R --update PAGE...   writes into the pages what R prints
args <- commandArgs(TRUE)
update <- "--update" %in% args
options(width = 110, digits = 5, useFancyQuotes = FALSE)

# What R prints for a line of input, with its warnings.
entered <- function(code, session) {
  warned <- character()
  out <- capture.output(withCallingHandlers({
    for (part in parse(text = code, keep.source = FALSE)) {
      value <- withVisible(eval(part, session))
      if (value$visible) print(value$value)
    }
  }, warning = function(w) {
    warned <<- c(warned, paste("Warning:", conditionMessage(w)))
    invokeRestart("muffleWarning")
  }))
  sub(" +$", "", c(out, warned))
}

run_page <- function(page) {
  lines <- readLines(page, encoding = "UTF-8")
  session <- new.env(parent = globalenv())
  out <- character()
  wrong <- entries <- 0
  at <- 1
  while (at <= length(lines)) {
    out <- c(out, lines[at])
    at <- at + 1
    if (lines[at - 1] != "```r") next
    while (lines[at] != "```") {
      code <- lines[at]
      at <- at + 1
      while (startsWith(lines[at], "+ ")) {
        code <- c(code, lines[at])
        at <- at + 1
      }
      shown <- character()
      while (lines[at] != "```" && !startsWith(lines[at], "> ")) {
        shown <- c(shown, lines[at])
        at <- at + 1
      }
      printed <- entered(substring(code, 3), session)
      entries <- entries + 1
      if (!identical(printed, shown)) {
        wrong <- wrong + 1
        if (!update)
          cat(page, ": ", code[1], "\nit shows\n", paste0("  ", shown, "\n"), "R prints\n",
              paste0("  ", printed, "\n"), sep = "")
      }
      out <- c(out, code, printed)
    }
  }
  if (update && wrong) writeLines(out, page, useBytes = TRUE)
  cat(page, ": ", entries, " entries", if (wrong) paste(",", wrong, "differ"), "\n", sep = "")
  entries > 0 && (update || wrong == 0)
}

good <- vapply(setdiff(args, "--update"), run_page, NA)
quit(status = !all(good))
