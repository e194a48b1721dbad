package activationpb

import (
	"context"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/testing/protocmp"
)

// TestGeneratedCode compiles the .proto and compares it with the descriptor in
// the committed code.
func TestGeneratedCode(t *testing.T) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := compiler.Compile(context.Background(), "activation.proto")
	if err != nil {
		t.Fatal(err)
	}
	want := protodesc.ToFileDescriptorProto(files[0])
	got := protodesc.ToFileDescriptorProto(File_activation_proto)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("activation.proto was changed without go generate (-compiled +committed):\n%s", diff)
	}
}
