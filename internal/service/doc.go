// Package service is what every program of Weir does the same way: it reads its
// settings from the environment and from flags, writes its log, tells its
// health and metrics over HTTP, says its version, reads its files again with
// SIGHUP, and stops when it is asked to.
//
// A program describes itself as a Program and calls Main, which does the rest
// and calls back once, with an Env and a context that ends with SIGTERM or
// SIGINT:
//
//	func main() {
//		var target string
//		service.Main(service.Program{
//			Name: "proxy", LogName: "Proxy", Port: 8082,
//			Settings: func(s *service.Settings) {
//				s.String(&target, "TARGET_URL", "http://127.0.0.1:8081", "base URL of the target")
//			},
//			Run: func(ctx context.Context, e *service.Env) error { … },
//		})
//	}
//
// Requests to a program's own endpoints are answered by ordinary net/http
// handlers. A program that reads HTTP on event loops hands them over to a Desk,
// which answers off the loops.
//
// The flag -healthcheck turns the binary into the check of a running one, for
// images that hold nothing else.
package service
