package pluginproc

import (
	"crypto/ecdsa"
	"crypto/x509"
	"testing"
)

// TestCertificate: who has the PEM alone knows the host by its certificate, as that of a
// client, whose key is the one that it is of; the next start has another.
func TestCertificate(t *testing.T) {
	own, public, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(public) {
		t.Fatalf("no certificate in %q", public)
	}
	shown, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shown.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if key := own.PrivateKey.(*ecdsa.PrivateKey); !key.PublicKey.Equal(shown.PublicKey) {
		t.Error("the key is not the certificate's")
	}
	other, _, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := x509.ParseCertificate(other.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("another's certificate passes for the host's")
	}
}
