package pluginproc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// envCertificate is go-plugin's name of the environment variable by which a plugin
// learns the host's certificate. It answers with its own in the handshake.
const envCertificate = "PLUGIN_CLIENT_CERT"

// localhost is the name on the certificates of both, by go-plugin's custom.
const localhost = "localhost"

// certificate returns a new key with a certificate, signed by itself, for one start of a
// plugin, and the certificate in PEM. The key is on the curve P-256. That of go-plugin's
// AutoMTLS, whose place it takes, is on P-521, for which the library has no assembly: the
// host's and the plugin's work on it were some nine milliseconds of every start.
func certificate() (*tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	of := &x509.Certificate{
		Subject:               pkix.Name{CommonName: localhost},
		DNSNames:              []string{localhost},
		SerialNumber:          serial,
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(noTimeout),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // a plugin finds it among the authorities that it was given
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
