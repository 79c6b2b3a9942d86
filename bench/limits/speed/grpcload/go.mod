// The client and the server of gRPC that bench speed measures with are a module of their own: no
// program here needs grpc-go.
module weir/bench/limits/speed/grpcload

go 1.26.0

require google.golang.org/grpc v1.85.0

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
