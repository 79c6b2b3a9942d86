// Package service provides what all programs of Weir have in common: settings from the
// environment and from flags, the log, health and metrics over HTTP, -version, reloading
// files on SIGHUP, and stopping on a signal.
//
// A program describes itself as a Program and calls Main. Main calls Run once, with an
// Env and a context that ends with SIGTERM or SIGINT:
//
//	func main() {
//		var target string
//		service.Main(service.Program{
//			Name: "proxy", LogName: "Proxy", Port: 8082,
//			Settings: func(s *service.Settings) {
//				s.Add(service.SettingList{
//					{Name: "TARGET_URL", Value: service.String(&target), Help: "base URL of the target"},
//				})
//			},
//			Run: func(ctx context.Context, e *service.Env) error { … },
//		})
//	}
//
// Requests to a program's own endpoints are answered by net/http handlers. A program that reads
// HTTP on event loops passes these requests to a [HandlerPool], which runs the handlers in
// goroutines outside the loops.
//
// With the flag -healthcheck a binary checks a running program and exits. An image that contains
// nothing but the binary can use it as its health check.
//
// [OwnEndpoints] lists all own endpoints, with who may use each of them. Requests from other
// users, from web pages and from reverse proxies on the same machine all come from a loopback
// address, so the address alone does not show who sends one: see
// docs/design/010-own-endpoints.md.
//
// [Settings] are flags of the standard library: each is an environment variable and a flag, and all
// faults are reported at once, one line each.
package service
