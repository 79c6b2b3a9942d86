// Package deploy contains only tests: of the images, the compose file, the configurations of
// Prometheus and Grafana, the systemd units and the example configurations in this folder. They run
// the real programs where possible, with the Docker engine and Debian's Prometheus and Redis. The
// tests of the Kubernetes files are in the module deploy/check, because of its dependencies.
package deploy
