// Command moe-plugin-softplus serves the activation softplus as a plugin.
package main

import (
	"github.com/gatedlearning/moe/plugins/softplus"
	"github.com/gatedlearning/moe/sdk/serve"
)

func main() { serve.Family(softplus.Family) }
