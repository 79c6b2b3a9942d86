// Advisor forecasts the rate that arrives at proxies from what they report, and
// recommends limits.
package main

import (
	"context"

	"weir/advisor/config"
	"weir/advisor/serve"
	"weir/internal/service"
)

func main() {
	var c config.Config
	service.Main(service.Program{
		Name: "advisor", LogName: "Advisor", About: "forecasts rates and recommends limits", Port: 8084,
		Settings: c.Register,
		Run: func(ctx context.Context, e *service.Env) error {
			if err := c.Complete(); err != nil {
				return err
			}
			return serve.Run(ctx, e, c)
		},
	})
}
