//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/gatedlearning/moe/internal/wire/activationpb"
)

// serveRaw serves the protocol by hand over HTTP/2, so that Eval may answer with
// bytes that no gRPC server would send.
func serveRaw(eval func(http.ResponseWriter)) {
	config, certificate := mutualTLS()
	socket := filepath.Join(os.Getenv(plugin.EnvUnixSocketDir), "s")
	lis, err := net.Listen("unix", socket)
	check(err)
	server := &http.Server{TLSConfig: config, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		code := codes.OK
		switch path.Base(r.URL.Path) {
		case "Describe":
			reply(w, &pb.DescribeResponse{Name: "double", Version: "1"})
		case "Configure":
			reply(w, &pb.ConfigureResponse{Name: "double", Version: "1"})
		case "Eval":
			eval(w)
		default:
			code = codes.Unimplemented
		}
		w.Header().Set("Grpc-Status", strconv.Itoa(int(code)))
	})}
	fmt.Printf("1|1|unix|%s|grpc|%s\n", socket, certificate)
	check(server.ServeTLS(lis, "", ""))
}

// reply writes a message in gRPC's frame.
func reply(w http.ResponseWriter, m proto.Message) {
	data, err := proto.Marshal(m)
	check(err)
	w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...))
}

// mutualTLS returns what go-plugin's own server makes of the host's certificate.
func mutualTLS() (*tls.Config, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	host := x509.NewCertPool()
	host.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    host,
		NextProtos:   []string{"h2"},
	}, base64.RawStdEncoding.EncodeToString(der)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
