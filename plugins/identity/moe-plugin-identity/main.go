// Command moe-plugin-identity serves the activation identity as a plugin.
package main

import (
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk/serve"
)

func main() { serve.Family(identity.Family) }
