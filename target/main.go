// Command target is the protected service of experiments: /api/test answers 200 OK with a
// configured capacity.
package main

import (
	"context"

	"weir/internal/program/service"
	"weir/target/serve"
)

func main() {
	var cfg serve.Config
	service.Main(service.Program{
		Name: "target", LogName: "Target", Port: 8081,
		About:    "simulated service with a known capacity",
		Settings: cfg.Register,
		Run: func(ctx context.Context, e *service.Env) error {
			return serve.Run(ctx, e, cfg)
		},
	})
}
