package main

import "testing"

// A warning names HTTP/2 settings that have no effect.
func TestHTTP2WithoutEffect(t *testing.T) {
	for want, env := range map[string][]string{
		"HTTP2 has no effect without TLS_CERT":                         {"HTTP2", "tls"},
		"HTTP2_STREAMS_MAX has no effect with HTTP2=off":               {"HTTP2_STREAMS_MAX", "5"},
		"TARGET_PROTOCOL has no effect while no target has https://":   {"TARGET_PROTOCOL", "h2"},
		"TARGET_PROTOCOL has no effect while no target has http://":    {"TARGET_PROTOCOL", "h2c", "TARGET_URL", "https://a"},
		"TARGET_STREAMS_MAX has no effect while no target gets HTTP/2": {"TARGET_STREAMS_MAX", "5"},
	} {
		launch(t, env).Logged("WARN Proxy - " + want)
	}
}
