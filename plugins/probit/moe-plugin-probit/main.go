// Command moe-plugin-probit serves the activation probit as a plugin.
package main

import (
	"github.com/gatedlearning/moe/plugins/probit"
	"github.com/gatedlearning/moe/sdk/serve"
)

func main() { serve.Family(probit.Family) }
