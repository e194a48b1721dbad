// Package activationpb is the generated code of the protocol in
// activation.proto, where it is documented. After a change to that file run
//
//	go generate ./internal/wire/activationpb
//
// with protoc on the PATH; the plugins that it calls are built from the tools
// module. A test compiles the file without protoc and compares the result with
// the committed code.
package activationpb

//go:generate ../../../tools/protoc.sh activation.proto
