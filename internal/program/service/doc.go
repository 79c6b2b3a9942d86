// Package service has what all programs of Weir have in common: settings from the
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
//				s.Add(service.Table{
//					{Name: "TARGET_URL", Value: service.Text(&target), Help: "base URL of the target"},
//				})
//			},
//			Run: func(ctx context.Context, e *service.Env) error { … },
//		})
//	}
//
// Requests to a program's own endpoints are answered by net/http handlers. A program that
// reads HTTP on event loops passes these requests to a Desk, which answers outside the
// loops.
//
// With the flag -healthcheck the binary checks a running program, for images that contain
// nothing else.
//
// Own endpoints are listed in one place, [OwnEndpoints], with who may use them;
// docs/design/010-own-endpoints.md says why.
//
// [Settings] are flags of the standard library: each is an environment variable and a flag, and all
// faults are reported at once, one line each.
package service
