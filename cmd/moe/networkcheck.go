package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/report/verdict"
)

// networkCheckFlags are the flags of moe network check.
type networkCheckFlags struct {
	activation activationFlags
	sigmas     string
	between    string
	d          int
	network    string
}

// mostUnits bounds --d of moe network check: the Hessian has d⁴ entries.
const mostUnits = 40

func newNetworkCheckCmd() *cobra.Command {
	f := new(networkCheckFlags)
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Say whether networks of an activation can be recovered",
		Long: `check looks at the conditions under which networks with one hidden layer are
recovered by tensor initialisation and gradient descent:

    P1  0 <= phi'(z) <= L*|z|^p
    P2  rho(s) > 0 at every scale s, the length of a unit's weights
    P3  |phi''| <= L, or phi is piecewise linear with finitely many kinks

and at the least eigenvalue of the Hessian of the expected loss: at W = I with v = 1,
for d units over d features, or at the weights of the network in a file.

The exit code is 0 where the conditions hold and that eigenvalue is above 0, and 1
where not.`,
		Example: `  moe network check relu
  moe network check leakyrelu --param slope=0.1 --sigma 0.1,1,10 --d 6
  moe network check relu --network truth.json --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.activation.registerNamed(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.sigmas, "sigma", "0.1,1,10", "scales `S1,S2,...` at which rho is shown")
	flags.StringVar(&f.between, "range", "0.01:100", "scales `FROM:TO` over which P2 is judged")
	flags.IntVar(&f.d, "d", 5, "units and features of the Hessian at W = I")
	flags.StringVar(&f.network, "network", "", "take the Hessian at the weights in this network `FILE`")
	return cmd
}

func (f *networkCheckFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	sigmas, err := parseNumbers("sigma", f.sigmas)
	if err != nil {
		return err
	}
	for _, s := range sigmas {
		if s <= 0 {
			return usagef("--sigma %s: want numbers above 0", f.sigmas)
		}
	}
	lo, hi, err := f.parseRange()
	if err != nil {
		return err
	}
	if f.d < 1 || f.d > mostUnits {
		return usagef("--d %d: want 1 to %d", f.d, mostUnits)
	}
	n, where := network.Orthonormal(f.d), "W = I"
	var file *networkfile.Network // nil: W = I
	if f.network != "" {
		if cmd.Flags().Changed("d") {
			return usagef("--d %d: the network of %s has a size of its own", f.d, f.network)
		}
		if file, err = networkfile.Read(f.network); err != nil {
			return err
		}
		remarkUnread(cmd, f.network, file.Unknown)
		n = file.Model()
		where = "the weights of " + f.network
	}
	plugin, err := f.activation.openFrom(ctx, catalog.Catalog{Unchecked: true})
	if err != nil {
		return err
	}
	defer plugin.Close()
	// The weights may be looked at with another activation, but not with another
	// function under the name of theirs.
	if file != nil && file.Activation.Same(stated.Of(plugin.Activation.Info())) {
		if err := file.Activation.Verify(ctx, f.network, plugin.Activation); err != nil {
			return err
		}
		remarkUnverified(cmd, f.network, file.Activation, plugin)
	}
	c, err := network.CheckOf(ctx, plugin.Activation, sigmas, lo, hi, n)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		err = printJSON(cmd, newNetworkCheckJSON(plugin, c, n))
	} else {
		err = verdict.NetworkCheck(textOut(cmd), stated.Of(plugin.Activation.Info()).String(), where, n, c)
	}
	if err == nil && !c.Holds() {
		return errNo
	}
	return err
}

func (f *networkCheckFlags) parseRange() (lo, hi float64, err error) {
	from, to, ok := strings.Cut(f.between, ":")
	if ok {
		if lo, err = strconv.ParseFloat(from, 64); err == nil {
			hi, err = strconv.ParseFloat(to, 64)
		}
	}
	if !ok || err != nil || !(lo > 0 && lo < hi && hi < 1e6) {
		return 0, 0, usagef("--range %s: want FROM:TO with 0 < FROM < TO, such as 0.01:100", f.between)
	}
	return lo, hi, nil
}

// networkCheckJSON is the JSON of moe network check.
type networkCheckJSON struct {
	Activation struct {
		Name    string             `json:"name"`
		Params  map[string]float64 `json:"params"`
		Source  string             `json:"source"`
		Version string             `json:"version"`
	} `json:"activation"`
	P1      bool      `json:"p1"`
	P2      bool      `json:"p2"`
	P3      bool      `json:"p3"`
	Rho     []rhoJSON `json:"rho"`
	Range   []rhoJSON `json:"range"`
	Hessian struct {
		K       int       `json:"k"`
		D       int       `json:"d"`
		Least   float64   `json:"least_eigenvalue"`
		Largest float64   `json:"largest_eigenvalue"`
		Null    int       `json:"null_dimension"`
		Error   float64   `json:"error"`
		Values  []float64 `json:"eigenvalues"`
	} `json:"hessian"`
	Holds   bool     `json:"holds"`
	Reasons []string `json:"reasons"`
}

type rhoJSON struct {
	Sigma float64 `json:"sigma"`
	Rho   float64 `json:"rho"`
}

func newNetworkCheckJSON(plugin *catalog.Plugin, c *network.Check, n *model.Network) networkCheckJSON {
	var out networkCheckJSON
	info := stated.Of(plugin.Activation.Info())
	out.Activation.Name, out.Activation.Params, out.Activation.Version = info.Name, info.Params, info.Version
	out.Activation.Source = plugin.Source()
	out.P1, out.P2, out.P3 = c.Conditions.P1, c.P2, c.Conditions.P3
	list := func(from []network.Rho) []rhoJSON {
		to := []rhoJSON{}
		for _, r := range from {
			to = append(to, rhoJSON{r.Sigma, r.Rho})
		}
		return to
	}
	out.Rho, out.Range = list(c.Rho), list(c.Range)
	h := &out.Hessian
	h.K, h.D, h.Least, h.Null, h.Error, h.Values = n.K, n.D, c.Hessian.Least(), c.Hessian.Null, c.Bound,
		c.Hessian.Values
	h.Largest = h.Values[len(h.Values)-1]
	out.Holds, out.Reasons = c.Holds(), c.Reasons()
	return out
}
