package fitted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Own are the own parameters of a family but sigma, by their names: of each one value for all experts or one for each.
type Own map[string]Sigma

// noiseOf are the own parameters of p as files have them: sigma, and the others.
func noiseOf(p *model.Params) (sigma Sigma, others Own) {
	own := mixture.DensityOf(p.Family).Own()
	for q, values := range slices.Insert(slices.Clone(p.Own), 0, p.Sigma) {
		switch {
		case q == 0 && (len(own) == 0 || own[0].Name == mixture.Sigma):
			sigma = Sigma(values)
		case len(values) > 0:
			if others == nil {
				others = Own{}
			}
			others[own[q].Name] = values
		}
	}
	return sigma, others
}

// Names are theirs, in the order of a family that has all of them.
func (o Own) Names(family string) (names []string) {
	for _, own := range mixture.DensityOf(family).Own() {
		if _, ok := o[own.Name]; ok {
			names = append(names, own.Name)
		}
	}
	return names
}

// into writes sigma and o, which are those of its family, to p.
func (o Own) into(p *model.Params, sigma []float64) {
	p.Sigma, p.Own = sigma, nil
	names := o.Names(p.Family)
	if len(sigma) == 0 && len(names) > 0 {
		p.Sigma, names = o[names[0]], names[1:]
	}
	for _, name := range names {
		p.Own = append(p.Own, o[name])
	}
}

// check refuses own parameters of other names than those of a family, which is known, of another number of values than
// one and k, or than sigma has, and outside of what they may be.
func (o Own) check(family string, sigma []float64, k int) error {
	own, levels := mixture.DensityOf(family).Own(), len(sigma)
	if len(own) > 0 && own[0].Name == mixture.Sigma {
		own = own[1:]
	} else if len(own) > 0 {
		if levels > 0 {
			return fmt.Errorf("sigma is %v, and the family %q has none", sigma, family)
		}
		if levels = len(o[own[0].Name]); levels != 1 && levels != k {
			return fmt.Errorf("own.%s has %d values, want 1 or k = %d", own[0].Name, levels, k)
		}
	}
	if len(o) != len(own) {
		return fmt.Errorf("own has %d parameters, want %d of the family %q", len(o), len(own), family)
	}
	for _, q := range own {
		if err := check.Vector("own."+q.Name, o[q.Name], levels); err != nil {
			return err
		}
		for _, v := range o[q.Name] {
			if !(v > 0 && v >= q.Least && v <= q.Most) {
				return fmt.Errorf("own.%s = %v, want a number above 0 from %v to %v", q.Name, v, q.Least, q.Most)
			}
		}
	}
	return nil
}

// Sigma is the noise level: one number for all experts or one for each.
type Sigma []float64

// MarshalJSON writes a single level as a number, several as a list, with null for NaN.
func (s Sigma) MarshalJSON() ([]byte, error) {
	if len(s) == 1 {
		return json.Marshal(s[0])
	}
	return gaps(s).MarshalJSON()
}

// UnmarshalJSON reads a number, a list of numbers, or null, which is none.
func (s *Sigma) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*s = nil
		return nil
	}
	if bytes.HasPrefix(data, []byte("[")) {
		return (*gaps)(s).UnmarshalJSON(data)
	}
	*s = make(Sigma, 1)
	return json.Unmarshal(data, &(*s)[0])
}

func checkSigma(sigma []float64, k int) error {
	if len(sigma) != 1 && len(sigma) != k {
		return fmt.Errorf("sigma has %d values, want 1 or k = %d", len(sigma), k)
	}
	for _, v := range sigma {
		if !(v > 0) || !numeric.Finite(v) {
			return fmt.Errorf("sigma = %v, want a finite number above 0", v)
		}
	}
	return nil
}

// CheckFamily refuses one that is not known here, and own parameters that are not its.
func CheckFamily(family string, sigma []float64, own Own, k int) error {
	if !mixture.Known(family) {
		return fmt.Errorf("family is %q, which is not known here; there are %s", family,
			strings.Join(mixture.Densities(), ", "))
	}
	if all := mixture.DensityOf(family).Own(); len(all) > 0 {
		if all[0].Name == mixture.Sigma {
			if err := checkSigma(sigma, k); err != nil {
				return err
			}
		}
		return own.check(family, sigma, k)
	}
	if len(sigma)+len(own) > 0 {
		return fmt.Errorf("sigma is %v and own %v, the family %s has none", sigma, own, family)
	}
	return nil
}
