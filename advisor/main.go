// Advisor forecasts the request rate from what proxies report, and recommends limits.
package main

import (
	"context"

	"weir/advisor/config"
	"weir/advisor/serve"
	"weir/internal/program/service"
)

func main() {
	var c config.Config
	service.Main(service.Program{
		Name: "advisor", LogName: "Advisor", About: "forecasts rates and recommends limits", Port: 8084,
		File: "EVENTS_FILE", Reloads: []string{"events"}, Settings: c.Register, Check: c.Complete,
		Run: func(ctx context.Context, e *service.Env) error { return serve.Run(ctx, e, c) },
	})
}
