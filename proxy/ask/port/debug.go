package port

import (
	"context"
	"log/slog"

	"weir/proxy/ask/envoy"
)

// debugBytesMax bounds what is logged of the descriptors of one request.
const debugBytesMax = 1 << 10

// debugLog returns what logs each request to Envoy's rate limit service, or nil unless the level is debug.
func debugLog(log *slog.Logger) func(c *envoy.Evaluation, problem string) {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return nil
	}
	return func(c *envoy.Evaluation, problem string) {
		domain := string(c.Request.Domain[:min(len(c.Request.Domain), nameBytesMax)])
		if problem != "" {
			log.Debug("Not decided", "domain", domain, "reason", problem)
			return
		}
		log.Debug("Decided", "domain", domain, "code", c.Response.OverallCode.String(), "descriptors",
			string(appendDescriptors(nil, c)))
	}
}

// appendDescriptors appends the descriptors of a request that was decided, as (key=value,…), each with its code. Beyond
// the bound an ellipsis stands for the rest.
func appendDescriptors(dst []byte, c *envoy.Evaluation) []byte {
	for i := range c.Request.Descriptors {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, '(')
		for k, e := range c.Request.Descriptors[i].Entries {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, e.Key...), '='), e.Value...)
			if len(dst) > debugBytesMax {
				return append(dst[:debugBytesMax], "…"...)
			}
		}
		dst = append(append(dst, ") "...), c.Response.Statuses[i].Code.String()...)
	}
	return dst
}
