// Command moe-plugin-tanh serves the activation tanh as a plugin.
package main

import (
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk/serve"
)

func main() { serve.Family(tanh.Family) }
