// Command moe-plugin-leakyrelu serves the activation leakyrelu as a plugin.
package main

import (
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/sdk/serve"
)

func main() { serve.Family(leakyrelu.Family) }
