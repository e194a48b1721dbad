// Command moe-plugin-sigmoid serves the activation sigmoid as a plugin.
package main

import (
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk/serve"
)

func main() { serve.Family(sigmoid.Family) }
