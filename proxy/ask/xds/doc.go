// Package xds gets the limits of Envoy's rate limit service from an xDS management server.
package xds
