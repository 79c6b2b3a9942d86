// Command failsafe is a reverse proxy with failsafe-go's adaptive limiter in
// front of the target, which it is told nothing about: what bench protect
// compares the gate with.
//
//	failsafe LISTEN TARGET
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
)

// The queue is what its BuildPrioritized uses when it is told nothing: all may
// wait up to twice the limit, none beyond three times.
const (
	queueAll  = 2
	queueNone = 3
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: failsafe LISTEN TARGET, each host:port")
		os.Exit(2)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Args[2]})
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute}
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a line for each request while the target is away
	limiter := adaptivelimiter.NewBuilder[*http.Response]().WithQueueing(queueAll, queueNone).Build()
	server := &http.Server{Addr: os.Args[1], Handler: failsafehttp.NewHandler(proxy, limiter), ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}
