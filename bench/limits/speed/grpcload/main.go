// Command grpcload makes unary calls with grpc-go as fast as they are answered, or answers them. Its
// arguments and what it prints are those of wrk, as far as bench speed uses them.
//
//	grpcload serve ADDRESS
//	grpcload -tTHREADS -cCONNECTIONS -dSECONDSs --latency http://ADDRESS/Service/Method
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// streams is how many calls of a connection are in progress. With one connection, which measures latency, it is one.
const streams = 16

// A codec is one of messages that are bytes.
type codec struct{}

func (codec) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (codec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = slices.Clone(b); return nil }
func (codec) Name() string                    { return "proto" }

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	connections, span := 0, time.Duration(0)
	for _, arg := range os.Args[1:] {
		var err error
		if text, ok := strings.CutPrefix(arg, "-c"); ok {
			connections, err = strconv.Atoi(text)
		} else if text, ok := strings.CutPrefix(arg, "-d"); ok {
			span, err = time.ParseDuration(text)
		}
		check(err)
	}
	at, err := url.Parse(os.Args[len(os.Args)-1])
	check(err)
	load(at, connections, span)
}

// serve answers every call with its message.
func serve(addr string) {
	l, err := net.Listen("tcp", addr)
	check(err)
	check(grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.UnknownServiceHandler(echo)).Serve(l))
}

func echo(_ any, s grpc.ServerStream) error {
	for {
		var m []byte
		if err := s.RecvMsg(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

// load makes calls and prints their number, their rate and their median latency.
func load(at *url.URL, connections int, span time.Duration) {
	var mu sync.Mutex
	var took []time.Duration
	failed := 0
	end := time.Now().Add(span)
	var callers sync.WaitGroup
	for range connections {
		conn, err := grpc.NewClient("passthrough:///"+at.Host, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
		check(err)
		for range min(streams, 1+streams*(connections-1)) {
			callers.Go(func() {
				message, answer, own, bad := []byte("hello"), []byte(nil), []time.Duration(nil), 0
				for began := time.Now(); began.Before(end); began = time.Now() {
					if err := conn.Invoke(context.Background(), at.Path, &message, &answer); err != nil {
						bad++
					}
					own = append(own, time.Since(began))
				}
				mu.Lock()
				defer mu.Unlock()
				took, failed = append(took, own...), failed+bad
			})
		}
	}
	callers.Wait()
	if len(took) == 0 {
		log.Fatal("no call has ended")
	}
	slices.Sort(took)
	fmt.Printf("50%% %dus\n%d requests in %v\nRequests/sec: %.2f\n", took[len(took)/2].Microseconds(), len(took), span,
		float64(len(took))/span.Seconds())
	if failed > 0 {
		fmt.Printf("Non-2xx or 3xx responses: %d\n", failed)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
