package experiment

// costs are the seconds of one core that all units of a figure take at quick and
// at full size, shared ones included, of which [Progress] estimates what is left.
// Only their ratios matter, and those roughly.
var costs = map[string][2]float64{
	"002-2a": {10, 40}, "002-2b": {10, 42}, "002-3a": {2.4, 9}, "002-3b": {2.4, 9}, "002-4": {2.6, 11},
	"002-3-relu": {3, 60},
	"000-1a":     {6.1, 52}, "000-1b": {6.1, 52}, "000-1b-em": {4, 130}, "000-1c": {4.4, 45}, "000-3a": {2.4, 9},
	"000-3b": {2.4, 9}, "000-3c": {20, 190}, "000-3c-bias": {20, 190}, "000-3c-law": {3, 100},
	"001-3": {1, 10}, "001-4": {2, 20}, "001-3-random": {1, 10}, "001-4-random": {2, 20}, "001-4-relu": {3, 45},
	"001-2": {3, 100}, "001-L4": {2, 2}, "001-gate": {8, 90}, "002-T4T": {1, 12}, "002-L4": {0.5, 20},
	"002-B":  {0.02, 0.02},
	"002-T1": {4.3, 18}, "002-T1-condition": {4, 14},
	"002-T2": {16, 200}, "002-T2d": {5, 70}, "002-T2-time": {8, 90}, "002-T3": {3.6, 70}, "002-T3d": {1, 30},
	"002-T3a": {1, 20}, "002-T3e": {1, 20}, "002-T4n": {2.0, 23}, "002-T4d": {1.8, 21}, "002-L3": {0.1, 1.8},
	"003-rho": {0.5, 0.5}, "003-hessian": {1, 10}, "003-recovery": {2, 60}, "003-steps": {2, 240}, "003-d": {2, 60},
	"003-k": {5, 400}, "003-kappa": {5, 90}, "003-epsilon": {5, 60},
	"004-identities": {0.1, 0.3}, "004-gram": {0.5, 3}, "004-gamma": {0.3, 3}, "004-order": {0.1, 0.1},
	"004-bound": {0.5, 3}, "004-moved": {4, 50}, "004-smallest": {0.2, 60},
	"004-L2": {0.3, 3}, "004-train": {0.7, 20}, "004-R": {0.5, 160}, "004-flow": {0.5, 450},
	"ray": {2.4, 2.4}, "fixed-table": {3.7, 34}, "efficiency-2": {18, 500}, "efficiency-3": {32, 900},
	"transforms-2": {2, 20}, "transforms-3": {3, 30}, "transforms-6": {5, 60}, "families": {40, 600},
	"overfit": {4, 75}, "overfit-held": {2, 2}, "overfit-two": {2, 40},
	"identifiability": {5, 110}, "identifiability-sigmoid": {5, 45},
	"identifiability-quadratic": {2, 2}, "oblique": {4, 14}, "em-rate": {1, 5},
	"trees": {5, 75}, "trees-flat": {5, 75}, "trees-recurrent": {2, 25}, "gru-states": {10, 210},
	"gain-bound": {6, 32},
}

// cost returns the seconds that a figure takes: 10 for one that has not been
// measured.
func (s size) cost(id string) float64 {
	c, known := costs[id]
	switch {
	case !known:
		return 10
	case s.quick:
		return c[0]
	}
	return c[1]
}
