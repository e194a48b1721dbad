// Package schema has the JSON Schemas of what the command prints and writes, a file each: what moe skill
// shows of them.
package schema

import "embed"

// Files are the schemas.
//
//go:embed *.json
var Files embed.FS
