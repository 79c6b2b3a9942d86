package http1

import "testing"

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:8082": true, "localhost:": true, "127.0.0.1": true, "127.0.0.1:": true,
		"127.9.9.9:80": true,
		"[::1]":        true, "[::1]:8082": true, "[::1]:": true, "::1": true, "[::ffff:127.0.0.1]:1": true,
		"": false, ":80": false, "localhost:a:b": false, "localhost.example": false, "10.0.0.1": false, "[::2]:80": false,
		"x": false,
	} {
		if have := IsLoopback(host); have != want {
			t.Errorf("Loopback(%q) = %v, want %v", host, have, want)
		}
	}
}
