#' Mixtures of regressions with a gate, by the command `moe`
#'
#' [moe()] fits, and the methods of its result are those of `lm`: see [predict.moe()], [summary.moe()], [update.moe()],
#' [anova.moe()] and [plot.moe()]. The command is found by [moe_command()] and put in place by [install_moe()].
#'
#' @docType package
#' @name moe-package
#' @keywords internal
#' @importFrom stats anova as.formula coef confint delete.response df.residual dnorm extractAIC family fitted formula logLik median model.frame
#'   model.matrix model.offset model.response model.weights napredict naresid nobs pnorm predict printCoefmat qnorm
#'   quantile residuals rnorm runif setNames sigma simulate terms update update.formula vcov
#' @importFrom graphics abline axis legend lines matplot plot rect
#' @importFrom generics tidy glance augment
NULL

#' @export
generics::tidy

#' @export
generics::glance

#' @export
generics::augment
