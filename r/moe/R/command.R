# Every refusal is one line: what, where, and what to do.
refuse <- function(...) stop(..., call. = FALSE)

# The command: where it is, which version it is, and how it is run.

series <- "0." # of the released commands that this package was made for

#' Where the command is
#'
#' The path of the command `moe`: what the option `moe.binary` names, else `$MOE_BINARY`, else the one on the `PATH`,
#' else the one that [install_moe()] has put below [tools::R_user_dir()]. A released command of another series of
#' versions is refused.
#'
#' @param quietly whether nothing is said where there is none. The examples of this package are then skipped.
#' @return `moe_command` returns a path, `moe_available` whether there is one.
#' @examples
#' if (moe_available()) moe_command()
#' @export
moe_command <- function() {
  name <- if (.Platform$OS.type == "windows") "moe.exe" else "moe"
  path <- getOption("moe.binary", Sys.getenv("MOE_BINARY"))
  if (!nzchar(path)) path <- Sys.which("moe")[[1]]
  if (!nzchar(path)) path <- file.path(installed(), name)
  if (!file.exists(path))
    refuse("there is no command moe at ", path, ": want it in options(moe.binary = ), $MOE_BINARY or on the PATH, ",
         "or by install_moe(from = FILE)")
  path <- normalizePath(path)
  made <- paste(path, file.mtime(path))
  if (is.null(checked[[made]])) {
    said <- suppressWarnings(tryCatch(system2(path, c("version", "--json"), stdout = TRUE, stderr = FALSE),
                                      error = function(e) ""))
    version <- tryCatch(sub("^v", "", fromJSON(said)$version), error = function(e) NULL)
    if (!is.character(version) || length(version) != 1)
      refuse(path, ": it does not say its version, and is no command moe")
    if (version != "(devel)" && !startsWith(version, series))
      refuse(path, ": version ", version, ", want ", series, "x")
    checked[[made]] <- TRUE
  }
  path
}

checked <- new.env()

#' @rdname moe_command
#' @export
moe_available <- function(quietly = FALSE) {
  said <- tryCatch(is.character(moe_command()), error = conditionMessage)
  if (!isTRUE(said) && !quietly) message("skipped: ", said)
  isTRUE(said)
}

installed <- function() tools::R_user_dir("moe", "data")

#' Put the command in place
#'
#' Copies a file that you name to the directory of this package's data ([tools::R_user_dir()]), where [moe_command()]
#' looks last. Nothing is downloaded, and nothing is written elsewhere.
#'
#' @param from the file of the command.
#' @param sha256 its SHA-256 in 64 hexadecimal digits, as the release has it; by default what stands first in the
#'   file of the same name with `.sha256` behind it.
#' @return The path of the copy, invisibly.
#' @examples
#' \dontrun{
#' install_moe(from = "~/Downloads/moe", sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
#' }
#' @export
install_moe <- function(from, sha256 = NULL) {
  if (!file.exists(from)) refuse(from, ": there is no such file")
  beside <- paste0(from, ".sha256")
  if (is.null(sha256)) {
    if (!file.exists(beside)) refuse("no SHA-256 of ", from, ": want sha256 =, or the file ", beside)
    sha256 <- sub("\\s.*", "", readLines(beside, n = 1, warn = FALSE))
  }
  if (!grepl("^[0-9a-fA-F]{64}$", sha256)) refuse("sha256 = ", sha256, ": want 64 hexadecimal digits")
  to <- file.path(installed(), if (.Platform$OS.type == "windows") "moe.exe" else "moe")
  dir.create(dirname(to), recursive = TRUE, showWarnings = FALSE)
  copy <- tempfile("moe-", dirname(to)) # beside, so that the last step is one step
  on.exit(unlink(copy))
  if (!file.copy(from, copy)) refuse(from, ": cannot be copied to ", dirname(to))
  found <- sha256_of(copy)
  if (!identical(found, tolower(sha256)))
    refuse(from, ": its SHA-256 is ", found, ", want ", sha256, "; nothing was installed")
  Sys.chmod(copy, "0755")
  if (!file.rename(copy, to)) refuse(to, ": cannot be written")
  invisible(to)
}

# The SHA-256 of a file: R has it from 4.5 on, else a package or a program of the system.
sha256_of <- function(file) {
  own <- get0("sha256sum", asNamespace("tools"))
  if (!is.null(own)) return(unname(own(file)))
  ways <- list(c("sha256sum"), c("shasum", "-a", "256"), c("openssl", "dgst", "-sha256", "-r"))
  for (way in ways) if (nzchar(Sys.which(way[1]))) {
    said <- system2(way[1], c(way[-1], shQuote(file)), stdout = TRUE)
    return(tolower(sub("^\\\\?([0-9a-fA-F]{64}).*", "\\1", said[1])))
  }
  if (nzchar(Sys.which("certutil")))
    return(tolower(gsub("\\s", "", system2("certutil", c("-hashfile", shQuote(file), "SHA256"), stdout = TRUE)[2])))
  refuse("nothing here computes SHA-256: want R 4.5 or later, or sha256sum on the PATH")
}

# Runs the command and returns its standard output. A refusal is an error of class moe_error, with its exit code.
# A file that was to be written, and was not, is a refusal too.
# With processx an interrupt ends the command before it is passed on; system2 hands it to the command itself.
run <- function(args, accept = 0, verbose = FALSE, wrote = NULL) {
  command <- moe_command()
  out <- tempfile("moe-")
  err <- tempfile("moe-")
  on.exit(unlink(c(out, err)))
  verbose <- verbose && interactive()
  if (!verbose) args <- c(args, "--quiet")
  shown <- if (verbose) "" else err
  if (requireNamespace("processx", quietly = TRUE)) {
    process <- processx::process$new(command, args, stdout = out, stderr = shown, cleanup = TRUE)
    on.exit(if (process$is_alive()) process$kill(), add = TRUE)
    while (process$is_alive()) process$wait(200)
    code <- process$get_exit_status()
  } else {
    code <- suppressWarnings(system2(command, shQuote(args), stdout = out, stderr = shown))
  }
  if (code %in% accept && (is.null(wrote) || file.exists(wrote))) return(readLines(out, warn = FALSE, encoding = "UTF-8"))
  said <- if (file.exists(err)) readLines(err, warn = FALSE, encoding = "UTF-8")
  at <- "^moe: (.*/config\\.json(:[0-9]+)*: (not a description of a fit: )?)?"
  said <- if (length(said)) sub("^.*/data\\.npy", "the data", sub(at, "", said[length(said)]))
  else paste("moe", args[1], "ended with exit code", code)
  stop(structure(class = c("moe_error", "error", "condition"), list(message = said, call = NULL, code = code)))
}

# Flags for the number of threads: at most two where R's checks ask for that.
threads_flag <- function(threads) {
  limit <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_"))
  if (nzchar(limit) && limit != "false") threads <- min(threads, 2)
  if (!is.null(threads)) c("--threads", format(threads))
}

fromJSON <- function(text) jsonlite::fromJSON(paste(text, collapse = "\n"), simplifyDataFrame = FALSE)

toJSON <- function(value) as.character(jsonlite::toJSON(value, auto_unbox = TRUE, digits = NA, null = "null"))
