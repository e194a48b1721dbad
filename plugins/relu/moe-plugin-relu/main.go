// Command moe-plugin-relu serves the activation relu as a plugin.
package main

import (
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk/serve"
)

func main() { serve.Family(relu.Family) }
