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

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: failsafe LISTEN TARGET, each host:port")
		os.Exit(2)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Args[2]})
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute}
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a line for each request while the target is away
	// The defaults. They do not queue: a queue of twice the limit alone makes the
	// target's answers later than 100 ms when it works at half its speed.
	limiter := adaptivelimiter.NewWithDefaults[*http.Response]()
	server := &http.Server{Addr: os.Args[1], Handler: failsafehttp.NewHandler(proxy, limiter),
		ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}
