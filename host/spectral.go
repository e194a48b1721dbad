package host

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/starts"
)

// Spectral is 001, method 1: regressors, signs and proportions from the
// decomposition of the cubic tensor, then the gate by EM with the regressors held.
type Spectral struct {
	Radius float64 // bounds the gating vectors as that of [Moments] does; 0: no bound
	// Corrections is the most rounds in which what the gate has in the tensors is taken off, see
	// [moment.Corrected]: of regressors that the gate's vectors are not orthogonal to.
	Corrections int
}

// Name returns "spectral".
func (Spectral) Name() string { return "spectral" }

// Takes implements [Method].
func (Spectral) Takes() []Option { return append([]Option{OptCorrections}, tensorOptions...) }

func (m Spectral) check() error {
	if m.Corrections < 0 {
		return problem.Refuse("corrections = %d, want 0 or more", m.Corrections)
	}
	return checkPositive("radius", m.Radius)
}

func (Spectral) order() int { return 3 }

func (m Spectral) fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*result.Outcome, error) {
	c.show(StageMoments, 1, 2)
	estimate, obstacle, err := moment.EstimateSpectral(ctx, p, e)
	if err != nil {
		return nil, err
	}
	if estimate != nil && m.Corrections > 0 {
		if estimate, err = m.corrected(ctx, p, e, estimate); err != nil {
			return nil, err
		}
	}
	return fromTensors(ctx, p, e, estimate, obstacle, starts.KindSpectral, m.Radius, m)
}

// corrected fits the gate and takes off what it has in the tensors, in rounds, until one turns no regressor by more
// than 1 − cos = 1/n: that is small beside the error of n rows. Of all rounds, the first estimate among them, it
// returns that under which the rows are most likely with the gate fitted to it.
func (m Spectral) corrected(ctx context.Context, p *problem.Problem, e *moment.Evidence,
	est *moment.Estimate) (*moment.Estimate, error) {
	if why := moment.Correctable(p, e); why != "" {
		return nil, problem.Refuse("corrections: %s", why)
	}
	best, least, turned, small := est, math.Inf(1), math.Inf(1), 1/float64(p.N())
	for round := 0; ; round++ {
		q, run, err := starts.FitGate(ctx, p, p.Rows, p.Shape.Adopt(est.Params), 0, p.Threads)
		if err != nil {
			return nil, err
		}
		if run.Value < least {
			best, least = est, run.Value
		}
		if round == m.Corrections || turned <= small {
			break
		}
		shares, _, err := search.ByProportion(ctx, p, p.Rows, q)
		if err != nil {
			return nil, err
		}
		next, err := moment.Corrected(ctx, p, e, q, shares)
		if err != nil {
			return nil, err
		}
		if next == nil {
			best.Notes = append(best.Notes, "corrections of the moments for the gate end: T2 has too few positive "+
				"eigenvalues")
			return best, nil
		}
		turned, est = next.Turned(est), next
	}
	if turned > small {
		best.Notes = append(best.Notes, fmt.Sprintf("corrections of the moments for the gate have not settled: the "+
			"last turned a regressor by 1 - cos = %.2g", turned))
	}
	return best, nil
}
