package fitted

// LeaveOneOut is what leaving out rows comes to: each row under the fit to the others, from the fit to all.
type LeaveOneOut struct {
	LogLikelihood float64 `json:"log_likelihood"`
	// Gap is by how much that is below the log-likelihood of the fitted rows. Where the model is right it is about the
	// number of Parameters, of those that have a finite optimum.
	Gap        float64 `json:"gap"`
	Parameters int     `json:"parameters"`
	// Of rows with weights, which are left out whole, what the gap is about then: Parameters·Σw²/Σw.
	Explained float64 `json:"explained,omitempty"`
	Refitted  int     `json:"refitted,omitempty"` // rows that were left out by a fit to the others; the rest by a step
	Rows      int     `json:"rows,omitempty"`     // that were looked at, where they are not all
}

// Expected is the gap where the model is right.
func (l *LeaveOneOut) Expected() float64 {
	if l.Explained > 0 {
		return l.Explained
	}
	return float64(l.Parameters)
}

// Shifted is l with a log-likelihood that is higher by so much, as that of another scale of the target; nil of nil.
func (l *LeaveOneOut) Shifted(by float64) *LeaveOneOut {
	if l == nil {
		return nil
	}
	out := *l
	out.LogLikelihood += by
	return &out
}
