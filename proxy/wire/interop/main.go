// Command interop plays the cases of the interoperability tests of gRPC that need no account. Its
// client is grpc-go's. It ends at the first case that fails.
package main

import (
	"context"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	"google.golang.org/grpc/interop/grpc_testing"
)

// reported is a policy of package interop that keeps the load reports of servers, for two of the cases.
const reported = `{"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}`

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		log.Fatal("usage: interop ADDRESS [CERTIFICATE of a server with TLS]")
	}
	secure := insecure.NewCredentials()
	if len(os.Args) == 3 {
		var err error
		if secure, err = credentials.NewClientTLSFromFile(os.Args[2], ""); err != nil {
			log.Fatal(err)
		}
	}
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(secure),
		grpc.WithDefaultServiceConfig(reported))
	if err != nil {
		log.Fatal(err)
	}
	ctx, client := context.Background(), grpc_testing.NewTestServiceClient(conn)
	for _, play := range []func(context.Context, grpc_testing.TestServiceClient, ...grpc.CallOption){
		interop.DoEmptyUnaryCall, interop.DoLargeUnaryCall, interop.DoClientStreaming, interop.DoServerStreaming,
		interop.DoPingPong, interop.DoEmptyStream, interop.DoTimeoutOnSleepingServer, interop.DoCancelAfterBegin,
		interop.DoCancelAfterFirstResponse, interop.DoStatusCodeAndMessage, interop.DoSpecialStatusMessage,
		interop.DoCustomMetadata,
	} {
		play(ctx, client)
	}
	interop.DoUnimplementedMethod(ctx, conn)
	interop.DoUnimplementedService(ctx, grpc_testing.NewUnimplementedServiceClient(conn))
	interop.DoORCAPerRPCTest(ctx, client)
	interop.DoORCAOOBTest(ctx, client)
}
