package experiment

// costs are the seconds of one core that a figure takes at quick and at full
// size, of which [Progress] estimates what is left. Only their ratios matter, and
// those roughly.
var costs = map[string][2]float64{}

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
