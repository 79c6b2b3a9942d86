// Package deploy has nothing but tests: of the images, the compose file, the
// settings of Prometheus and Grafana, the systemd units and the example
// configurations in this folder. What runs elsewhere is run here as far as it
// can be: with the Docker engine and Debian's Prometheus and Redis. The
// Kubernetes files have tests of their own, in the module deploy/check, whose
// dependencies the rest of the repository does without.
package deploy
