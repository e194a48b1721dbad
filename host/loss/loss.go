// Package loss holds the objectives of the method, each a value and a gradient
// to be minimised: L4 for the regressors (002 Eq. 7), L_log for the gating
// (002 Eq. 9), and the joint negative log-likelihood that refines both.
package loss

import "errors"

var errRank = errors.New("loss: the rows are linearly dependent")
