#!/bin/sh
# Compiles the .proto files given, in the current directory, with protoc and
# with the generators that tools/go.mod names. Used by go generate.
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(cd "$tools" && GOBIN="$bin" go install tool)
protoc --plugin="$bin/protoc-gen-go" --plugin="$bin/protoc-gen-go-grpc" \
	--go_out=. --go_opt=paths=source_relative \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative "$@"
