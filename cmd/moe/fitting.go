package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/known"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/spec"
	"github.com/gatedlearning/moe/host/terms"
)

// fitting is a fit that has been opened: what is fitted, with its activations and tables.
type fitting struct {
	*spec.Fit
	config  host.Config
	experts *experts
	input   *input
	sums    *shard.Moments
	table   *terms.Table // of the first target; nil of sums
	targets []host.Target
	modules map[string]*stated.Module // that go into the model's file

	// where the description stands for several: these, and a fitting of each that can be fitted, the first of them this
	alternatives []spec.Alternative
	among        []*fitting
}

// open opens what a description names, of one that stands for several all of them. The fit is to be closed.
func (f *fitFlags) open(cmd *cobra.Command, s *spec.Fit) (first *fitting, err error) {
	defer func() {
		if err != nil && first != nil {
			first.close()
			first = nil
		}
	}()
	all := s.Alternatives()
	among := make([]*fitting, len(all))
	for i, a := range all {
		if a.Refused != nil {
			continue
		}
		j := &fitting{Fit: a.Fit}
		if first == nil {
			j.alternatives, j.among, first = all, among, j
		}
		if j.config, err = j.Config(); err != nil {
			return first, err
		}
		j.config.Threads = f.threads
		f.memory.apply(&j.config)
		if err = j.open(cmd, f.activation.limits, among[:i]); err != nil {
			return first, err
		}
		among[i] = j
		if s.Embed {
			if j.modules, err = j.experts.modules(); err != nil {
				return first, err
			}
		}
	}
	return first, nil
}

// open opens what one description names, or shares it with those that are open.
func (j *fitting) open(cmd *cobra.Command, limits limitFlags, beside []*fitting) (err error) {
	ctx := cmd.Context()
	for _, o := range beside {
		if o == nil {
			continue
		}
		j.input = o.input
		if reflect.DeepEqual(o.Activation, j.Activation) {
			j.experts = o.experts
		}
		if (o.Family == host.Lognormal) == (j.Family == host.Lognormal) {
			j.table, j.targets = o.table, o.targets
		}
	}
	if j.experts == nil {
		if j.experts, err = openExperts(ctx, j.Fit, limits); err != nil {
			return err
		}
	}
	j.config.Approximate = j.experts.one != nil && !j.experts.one.InProcess() && !j.ExactActivation
	_, j.config.Leaves = j.experts.activation()
	if j.input == nil {
		from := j.Data
		if j.Moments != "" {
			from = j.Moments
		}
		if j.input, err = openInput(ctx, cmd, from); err != nil {
			return err
		}
	}
	if err := j.tables(ctx); err != nil {
		return err
	}
	if err := j.references(cmd, j.Truth, func(t *host.Target, r *known.Reference) (err error) {
		t.Truth, err = j.admitTruth(cmd, r)
		return err
	}); err != nil {
		return err
	}
	return j.references(cmd, j.Start, func(t *host.Target, r *known.Reference) (err error) {
		t.Start, err = j.admitStart(cmd, r)
		return err
	})
}

// choose returns the fitting that rows which were left out choose of several, the one of one alone.
func (j *fitting) choose(cmd *cobra.Command) (*fitting, error) {
	if len(j.among) == 1 {
		return j, nil
	}
	all := make([]host.Alternative, len(j.among))
	for i, o := range j.among {
		if o == nil {
			all[i].Settings = j.alternatives[i].Settings
			all[i].Refused = worded(cmd, j.alternatives[i].Refused)
			continue
		}
		act, _ := o.experts.activation()
		all[i] = o.Alternative(act, o.targets, o.config)
		all[i].Settings = j.alternatives[i].Settings
		all[i].Config.Progress, all[i].Config.Reading = j.config.Progress, j.config.Reading
	}
	found, err := host.Compare(cmd.Context(), all)
	if err != nil {
		return nil, err
	}
	one := j.among[found.Chosen]
	config := one.config.ChosenBy(found)
	config.Checkpoint, config.Resume = j.config.Checkpoint, j.config.Resume
	config.Progress, config.Reading = j.config.Progress, j.config.Reading
	one.config = config
	return one, nil
}

func (j *fitting) close() {
	if j.input != nil {
		j.input.close()
	}
	open := []*experts{j.experts}
	for _, o := range j.among {
		if o != nil && !slices.Contains(open, o.experts) {
			open = append(open, o.experts)
		}
	}
	for _, e := range open {
		if e != nil {
			e.Close()
		}
	}
}

// tables reads the data as features for every target, or the subsample beside the sums of moments.
func (j *fitting) tables(ctx context.Context) error {
	if j.Moments != "" {
		var err error
		if j.sums, err = shard.ReadMoments(j.Moments); err != nil {
			return err
		}
		j.targets = []host.Target{{Source: j.sums.SampleSource(j.Moments)}}
		return nil
	}
	requests, err := j.Tables()
	if err != nil {
		return err
	}
	for _, r := range requests[len(j.targets):] {
		table, err := terms.Open(ctx, j.input.open, r)
		if err != nil {
			return err
		}
		if j.table == nil {
			j.table = table
		}
		j.targets = append(j.targets, host.Target{Source: table.Source})
	}
	j.config = j.config.For(j.table)
	return nil
}

// references reads the parameters in a file for every target, where there is one. Those of a
// model are matched to the data's columns by name.
func (j *fitting) references(cmd *cobra.Command, path string, admit func(*host.Target, *known.Reference) error) error {
	if path == "" {
		return nil
	}
	features := j.targets[0].Source.Schema().Features
	var all []*known.Reference
	if j.Targets == nil {
		one, err := known.ReadReference(path, features)
		if err != nil {
			return err
		}
		all = append(all, one)
	} else {
		var err error
		if all, err = known.ReadReferences(path, features, j.Targets); err != nil {
			return err
		}
	}
	for i, r := range all {
		remarkUnread(cmd, path, r.Unknown)
		if err := admit(&j.targets[i], r); err != nil {
			return err
		}
	}
	return nil
}

// fit makes the fit.
func (j *fitting) fit(ctx context.Context) (*made, error) {
	act, _ := j.experts.activation()
	m, v, err := j.Run(ctx, act, j.targets, j.sums, j.config)
	switch {
	case err != nil:
		return nil, err
	case m != nil:
		m.Approximation, err = unknown(ctx, m.Activation, m.Approximation)
		m.Activation.Module = j.modules[m.Activation.Name]
		j.embed(m.Leaves)
		return &made{file: m, model: m}, err
	}
	v.Approximation, err = unknown(ctx, v.Leaves[0], v.Approximation)
	j.embed(v.Leaves)
	return &made{file: v, vector: v}, err
}

// embed puts modules into what a file says of its leaves.
func (j *fitting) embed(leaves []stated.Activation) {
	for i := range leaves {
		leaves[i].Module = j.modules[leaves[i].Name]
	}
}

// report writes the page about the fit, which a file with this text describes as far as the flags do not.
func (j *fitting) report(cmd *cobra.Command, path string, m *made, from []byte) error {
	shown, act := settingsOver(cmd, from), j.experts.evaluator()
	if m.vector != nil && m.vector.SharedGate != nil {
		var tables []dataset.Source
		for _, t := range j.targets {
			tables = append(tables, t.Source)
		}
		return writeSharedReport(cmd, path, shown, act, m.vector, tables)
	}
	pages := []pageOf{{m.model, j.targets[0].Source}}
	if m.vector != nil {
		pages = nil
		for i, t := range j.targets {
			pages = append(pages, pageOf{m.vector.Model(i), t.Source})
		}
	}
	return writeReport(cmd, path, shown, act, pages...)
}

// admitTruth returns the parameters of the truth, which are those of what is fitted.
func (j *fitting) admitTruth(cmd *cobra.Command, truth *known.Reference) (*model.Params, error) {
	act, leaves := j.experts.named()
	if err := sameActivation(j.Truth, truth, act, leaves); err != nil {
		return nil, err
	}
	if err := j.experts.verify(cmd, j.Truth, truth); err != nil {
		return nil, err
	}
	return truth.Params, j.sameShape(j.Truth, truth.Params)
}

// admitStart returns the parameters of the start, which are of the shape that is fitted. They may be of
// an activation of another name, but not of another function under this one.
func (j *fitting) admitStart(cmd *cobra.Command, start *known.Reference) (*model.Params, error) {
	if err := j.sameShape(j.Start, start.Params); err != nil {
		return nil, err
	}
	if len(start.Params.Sigma) == 0 && len(mixture.DensityOf(start.Params.Family).Own()) > 0 {
		return nil, &dataset.Error{File: j.Start,
			Msg: "its target has no sigma: its mean is all there is, and no fit can start there"}
	}
	act, leaves := j.experts.named()
	if !start.Same(act, leaves) {
		remark(cmd, "moe: %s is of activation %s, the fit of %s", j.Start, report.Activations(start.Activation,
			start.Leaves), report.Activations(act, leaves))
	} else if err := j.experts.verify(cmd, j.Start, start); err != nil {
		return nil, err
	}
	return start.Params, nil
}

// sameShape refuses parameters of another number of experts, or of another tree, than
// that of the fit.
func (j *fitting) sameShape(path string, p *model.Params) error {
	if from, to := j.Numbers(); p.K < from || p.K > to {
		of := fmt.Sprint(from)
		if j.KTo != 0 || j.Grows() {
			of = fmt.Sprintf("%d:%d", from, to)
		}
		return &dataset.Error{File: path, Msg: fmt.Sprintf("k = %d, the fit has k = %s", p.K, of)}
	}
	shape := j.config.Hierarchy
	if j.Grows() || p.Tree.Equal(shape) {
		return nil
	}
	of := p.Clone()
	of.Tree = shape
	return &dataset.Error{File: path, Msg: fmt.Sprintf("its experts are the tree %s, those of the fit %s",
		p.Hierarchy(), of.Hierarchy())}
}

// sameActivation refuses parameters of another activation, and those of another function
// under the name of this one, as far as there are values of both.
func sameActivation(path string, truth *known.Reference, act stated.Activation, leaves []stated.Activation) error {
	if truth.Same(act, leaves) {
		return truth.Agree(path, act, leaves)
	}
	return &dataset.Error{File: path,
		Msg: fmt.Sprintf("its activation is %s, that of the model is %s: their parameters do not compare",
			report.Activations(truth.Activation, truth.Leaves), report.Activations(act, leaves))}
}

// openExperts opens the activations of a fit.
func openExperts(ctx context.Context, s *spec.Fit, limits limitFlags) (*experts, error) {
	if s.Leaves != nil {
		tree := new(treeFlags)
		for _, l := range s.Leaves {
			tree.parsed = append(tree.parsed, leafName{l.Name, l.Params})
		}
		return tree.open(ctx, &activationFlags{limits: limits})
	}
	if err := limits.check(); err != nil {
		return nil, err
	}
	one, err := limits.open(ctx, catalog.Catalog{}, s.Activation.Name, s.Activation.Params)
	if err != nil {
		return nil, err
	}
	return &experts{one: one}, nil
}
