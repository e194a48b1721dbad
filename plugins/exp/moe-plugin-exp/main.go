// Command moe-plugin-exp serves the activation exp as a plugin.
package main

import (
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/sdk/serve"
)

func main() { serve.Family(exp.Family) }
