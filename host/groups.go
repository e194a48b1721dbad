package host

import "github.com/gatedlearning/moe/host/problem"

// groupable refuses what fits of rows in groups do not know.
func groupable(c Config) error {
	for _, asked := range []struct {
		is   bool
		what string
	}{
		{c.Hierarchy.Depth() > 1, "a tree of gates"},
		{c.Output != "", "means c + s·g"},
		{c.ZeroExpert, "an expert that is always 0"},
		{c.wants(Dependent), "standard errors of rows that follow each other"},
		{c.Arrangements, "the weighing of arrangements"},
		{c.GatePenalty.Asked(), "a ridge on the gate"},
		{c.ExpertRidge.Asked(), "a ridge on the experts"},
		{c.ExpertLasso.Asked(), "a lasso on the experts"},
	} {
		if asked.is {
			return problem.Refuse("%s is not for rows in groups", asked.what)
		}
	}
	return nil
}
