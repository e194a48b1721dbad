package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host"
)

// TestMethodFlags: a flag that a method has no use for is refused with the methods that have,
// before the data are looked for; any other leads to the data, which are not there. That
// what is taken has an effect is for host.TestTakes.
func TestMethodFlags(t *testing.T) {
	values := map[host.Option]string{
		host.OptStart: "start.json", host.OptStarts: "3", host.OptMu: "0.5", host.OptTransform: "optimal", host.OptInputs: "mixture", host.OptRadius: "3", host.OptCorrections: "2", host.OptOptimiser: "adam",
		host.OptBatch: "9", host.OptStepSize: "0.1", host.OptSchedule: "inverse", host.OptEpochs: "2", host.OptLambda: "2", host.OptPenalty: "norm", host.OptRidge: "1",
		host.OptRobust: "true", host.OptHAC: "true", host.OptCluster: "id", host.OptGroup: "id", host.OptShared: "x1", host.OptGatePenalty: "0.1", host.OptExpertRidge: "0.1", host.OptExpertLasso: "0.1", host.OptArrangements: "true", host.OptStrict: "true",
		host.OptZeroExpert: "true",
	}
	beside := map[host.Option][]string{host.OptZeroExpert: {"--family", "poisson"}}
	flags := newFitCmd().Flags()
	for _, o := range host.Options() {
		switch value, known := values[o]; {
		case o == host.OptIntercepts || o == host.OptHierarchy || o == host.OptLeaves: // by their values, as host.TestTakes has it
			continue
		case (flags.Lookup(string(o)) != nil) != known:
			t.Errorf("--%s: there is such a flag: %v, a value of it here: %v", o, !known, known)
		case !known:
			continue
		default:
			for _, m := range host.Methods() {
				err := execute(t.Context(), append([]string{"fit", "nowhere.csv", "--activation", "identity", "--k", "2", "--method", m.Name(), "--" + string(o) + "=" + value}, beside[o]...))
				code, text := 0, ""
				if err != nil {
					code, text = exitCode(err), err.Error()
				}
				taken := slices.Contains(host.Taking(o), m.Name())
				refused := string(o) + " has no effect on method " + m.Name() + "; it is for " + strings.Join(host.Taking(o), ", ")
				if taken && code != exitIO || !taken && (code != exitUsage || text != refused) {
					t.Errorf("method %s, --%s: exit code %d, %q; taken %v", m.Name(), o, code, text, taken)
				}
			}
		}
	}
}
